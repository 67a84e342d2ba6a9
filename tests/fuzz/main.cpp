#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "tests/fuzz/fuzz.h"

namespace isobar::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBatch = 500;

// Readers whose names contain one of the comma-separated words; "": all
bool chosen(const std::string& name, const std::string& words) {
  std::istringstream all(words);
  for (std::string word; std::getline(all, word, ',');)
    if (name.find(word) != std::string::npos) return true;
  return words.empty();
}

int run(const fs::path& source, const fs::path& keep, uint64_t seed, int64_t first, int64_t inputs,
        const std::string& readers) {
  std::string made =
      (fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) / "isobar-fuzz-XXXXXX";
  if (!::mkdtemp(made.data())) throw std::runtime_error("mkdtemp");
  const fs::path folder = made;
  ::setenv("ISOBAR_CACHE_DIR", (folder / "cache").c_str(), 1);  // not the user's
  std::vector<Target> targets = text_targets(source, folder);
  for (const auto& more :
       {data_targets(folder), record_targets(source, folder), sweep_targets(folder), library_targets(folder),
        import_targets(folder), guest_targets(source, folder), cache_targets(folder)})
    targets.insert(targets.end(), more.begin(), more.end());
  std::erase_if(targets, [&](const Target& t) { return !chosen(t.name, readers); });
  if (targets.empty()) throw std::runtime_error("--readers " + readers + " names no reader");
  std::printf("seed %llu, %zu readers, inputs in %s\n", static_cast<unsigned long long>(seed), targets.size(),
              folder.c_str());
  std::vector<Report> reports(targets.size());
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  for (int64_t i = 0; i < inputs; i += kBatch) {
    run_batch({targets, folder, keep, seed, first + i, std::min(kBatch, inputs - i)}, reports);
    if ((i + kBatch) % 5000 == 0)
      std::printf("%lld inputs in %.0f s\n", static_cast<long long>(i + kBatch), seconds());
  }
  int64_t wrong = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    const Report& r = reports[i];
    std::printf("%-14s %8lld accepted %8lld refused %4lld wrong, the slowest took %.2f s of a core\n",
                targets[i].name.c_str(), static_cast<long long>(r.accepted),
                static_cast<long long>(r.refused), static_cast<long long>(r.wrong), r.slowest_s);
    wrong += r.wrong;
  }
  std::printf("%lld inputs in %.1f s, %lld wrong\n", static_cast<long long>(inputs), seconds(),
              static_cast<long long>(wrong));
  if (wrong > 0)
    std::printf("one of them again: fuzz_inputs --source %s --seed %llu --only <input>\n", source.c_str(),
                static_cast<unsigned long long>(seed));
  fs::remove_all(folder);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace isobar::fuzz

int main(int argc, char** argv) {
  std::map<std::string, std::string> given = {
      {"--source", "."},
      {"--inputs", "20000"},
      {"--keep", std::filesystem::temp_directory_path() / "isobar-fuzz-wrong"}};
  for (int i = 1; i < argc; i += 2) {
    const std::set<std::string> known = {"--source", "--inputs", "--seed", "--only", "--keep", "--readers"};
    if (!known.contains(argv[i]) || i + 1 == argc) {
      std::fprintf(stderr,
                   "%s: give --source DIR, --inputs N, --seed N, --only N, --keep DIR or --readers NAME\n",
                   argv[i]);
      return 2;
    }
    given[argv[i]] = argv[i + 1];
  }
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // output survives a crash
  const uint64_t seed = given.contains("--seed") ? std::stoull(given["--seed"]) : std::random_device{}();
  const bool one = given.contains("--only");
  return isobar::fuzz::run(given["--source"], given["--keep"], seed, one ? std::stoll(given["--only"]) : 0,
                           one ? 1 : std::stoll(given["--inputs"]), given["--readers"]);
}
