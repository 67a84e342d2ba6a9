// emulate_cpp CHECKPOINT BATCH < rows of numbers: the net's forecast of each row, as text that loses no bit
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <isobar/isobar.hpp>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  try {
    isobar::Net net(argv[1], {.threads = 1, .batch = std::atoi(argv[2])});
    const isobar_shape a = net.input(), b = net.output();
    std::vector<float> in;
    for (float x; std::cin >> x;) in.push_back(x);
    const int64_t rows = static_cast<int64_t>(in.size()) / (a.channels * a.height * a.width);
    std::vector<float> out(rows * b.channels * b.height * b.width);
    net.run(rows, in.data(), out.data());
    for (const float y : out) std::printf("%.9g\n", y);
  } catch (const isobar::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return e.code();
  }
}
