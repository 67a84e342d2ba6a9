// emulate_cpp CHECKPOINT BATCH < rows of numbers: the net's forecast of each row, as text that loses no bit
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <isobar/isobar.hpp>
#include <vector>

int refuse(const char* why) {
  std::fprintf(stderr, "%s\n", why);
  return 64;
}

int main(int argc, char** argv) {
  if (argc != 3) return refuse("usage: emulate_cpp CHECKPOINT BATCH < rows of numbers");
  char* end = nullptr;
  const long batch = std::strtol(argv[2], &end, 10);
  if (end == argv[2] || *end != '\0') return refuse("BATCH is no whole number");
  try {
    isobar::Net net(argv[1], {.threads = 1, .batch = batch});
    const isobar_shape a = net.input(), b = net.output();
    const int64_t inputs = a.channels * a.height * a.width;
    std::vector<float> in;
    for (float x; std::cin >> x;) in.push_back(x);
    const auto size = static_cast<int64_t>(in.size()), rows = size / inputs;
    if (!std::cin.eof() || size % inputs != 0)
      return refuse("the input ends within a row, or with what is no number");
    std::vector<float> out(rows * b.channels * b.height * b.width);
    net.run(rows, in.data(), out.data());
    for (const float y : out) std::printf("%.9g\n", y);
  } catch (const isobar::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return e.code();
  }
}
