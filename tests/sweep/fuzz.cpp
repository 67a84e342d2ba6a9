// What a user can write is mutated at random and read: sweep, model and machine files (the cluster section
// among it) and tables of measured runs. No input may do anything but be accepted or refused with one
// ConfigError that names the file, the key (of YAML the key or line, of CSV the column or line) and a mend.
// What crashes lies in the file that is printed.
//
//   fuzz_inputs --source DIR --inputs 1000000 --seed 1       # ends with a line of counts; 1 when something
//   is wrong fuzz_inputs --source DIR --seed 1 --only 17              # one input again
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "bench/cluster/cluster.h"
#include "bench/sweep/trials.h"
#include "model/base/error.h"
#include "model/base/files.h"
#include "model/base/yaml.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/score/collective_model.h"
#include "perfmodel/score/csv.h"
#include "perfmodel/score/published_run.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;
using Random = std::mt19937_64;

size_t below(Random& r, size_t n) {
  return n == 0 ? 0 : static_cast<size_t>(r() % n);
}

// ------------------------------------------------------------------------------------------- mutations
const std::vector<std::string> kWords = {"0",
                                         "-1",
                                         "1",
                                         "2",
                                         "1e308",
                                         "-1e-308",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "18446744073709551616",
                                         "nan",
                                         ".inf",
                                         "null",
                                         "~",
                                         "true",
                                         "\"\"",
                                         "''",
                                         "[]",
                                         "{}",
                                         "[[]]",
                                         "{a: {b: {c: 1}}}",
                                         "[1, 2, 3]",
                                         "&a",
                                         "*a",
                                         "&a [*a]",
                                         "!!binary",
                                         "!",
                                         "|",
                                         ">",
                                         "---",
                                         "...",
                                         "? ",
                                         ": ",
                                         "- ",
                                         "<<: *a",
                                         "inherits: base.yaml",
                                         "inherits: mutated",
                                         "axes:",
                                         "gpus: [1, 2, 4]",
                                         "any",
                                         "\t",
                                         "\n",
                                         "\r\n",
                                         ",",
                                         "\"",
                                         "#",
                                         "%",
                                         "@",
                                         "`",
                                         "\xff\xfe",
                                         "\xef\xbb\xbf",
                                         std::string(1, '\0'),
                                         "layout.dp: 3",
                                         "policy.amp: [none, bf16]",
                                         "cluster: {scheduler: slurm, cores: [4-7, 9-8, '-', '1,,2']}",
                                         "preamble: [[source, x], []]",
                                         "tp: [0, -1, 3]",
                                         "1,2",
                                         "repetitions: 1000",
                                         "constraints: {max_ranks: 1}",
                                         "exclude: [{gpus: 2}]",
                                         "include: [{tp: 2}]"};

std::string line_of(const std::string& text, Random& r) {
  std::vector<size_t> starts = {0};
  for (size_t i = 0; i + 1 < text.size(); ++i)
    if (text[i] == '\n') starts.push_back(i + 1);
  const size_t begin = starts[below(r, starts.size())], end = text.find('\n', begin);
  return text.substr(begin, end == std::string::npos ? end : end - begin + 1);
}

// A word's place: from one of the separators to the next.
std::pair<size_t, size_t> token(const std::string& text, Random& r) {
  const char* separators = " \n,[]{}:";
  const size_t at = below(r, text.size());
  const size_t begin = text.find_first_not_of(separators, at);
  if (begin == std::string::npos) return {at, 0};
  const size_t end = text.find_first_of(separators, begin);
  return {begin, (end == std::string::npos ? text.size() : end) - begin};
}

void mutate(std::string& text, const std::string& other, Random& r) {
  if (text.empty()) text = other;
  if (text.empty()) return;
  switch (below(r, 10)) {
    case 0:  // a bit
      text[below(r, text.size())] ^= static_cast<char>(1 << below(r, 8));
      break;
    case 1: {  // a value for another
      const auto [at, n] = token(text, r);
      text.replace(at, n, kWords[below(r, kWords.size())]);
      break;
    }
    case 2: {  // a token of another file
      const auto [at, n] = token(text, r);
      const auto [from, m] = token(other, r);
      text.replace(at, n, other.substr(from, m));
      break;
    }
    case 3: {  // a line away
      const std::string line = line_of(text, r);
      if (const size_t at = text.find(line); at != std::string::npos) text.erase(at, line.size());
      break;
    }
    case 4:  // a line twice, or of another file
      text.insert(below(r, text.size()), line_of(r() % 2 ? text : other, r));
      break;
    case 5:  // cut off
      text.resize(below(r, text.size()) + 1);
      break;
    case 6: {  // a number a little or much larger
      const auto [at, n] = token(text, r);
      if (n > 0 && std::isdigit(static_cast<unsigned char>(text[at])))
        text.insert(at + below(r, n), std::string(1 + below(r, 12), static_cast<char>('0' + below(r, 10))));
      break;
    }
    case 7:  // nesting
      text.insert(below(r, text.size()), std::string(1 + below(r, 300), "[{-"[below(r, 3)]));
      break;
    case 8:
      text.insert(below(r, text.size()), kWords[below(r, kWords.size())]);
      break;
    default:  // the tail of another file
      text = text.substr(0, below(r, text.size())) + other.substr(below(r, other.size()));
  }
}

// --------------------------------------------------------------------------------------------- targets
struct Target {
  std::string name, suffix;
  std::vector<std::string> seeds;
  std::function<void(const std::string& file)> read;
};

void read_sweep(const std::string& file) {
  const SweepSpec s = load_sweep_spec(file);
  size_t combinations = 1;  // expansion is the same for many as for few
  for (const Axis& a : s.axes) combinations *= std::min<size_t>(a.values.size(), 1000);
  if (combinations * static_cast<size_t>(s.repetitions) <= 64) expand(s);
}

void read_machine(const std::string& file) {
  load_machine(file);
  const nlohmann::json j = load_yaml(file);
  if (j.contains("cluster")) cluster_from_json(j["cluster"], file);
}

std::vector<Target> targets(const fs::path& source) {
  const auto all = [&](const char* folder, const char* suffix, size_t most) {
    std::vector<std::string> texts;
    for (const auto& entry : fs::directory_iterator(source / "configs" / folder))
      if (entry.path().extension() == suffix) {
        std::string text = read_file(entry.path());
        if (text.size() > most) text.resize(text.rfind('\n', most) + 1);
        texts.push_back(std::move(text));
      }
    std::sort(texts.begin(), texts.end());
    return texts;
  };
  std::vector<Target> t = {
      {"sweep", ".yaml", all("sweeps", ".yaml", 4000), read_sweep},
      {"model", ".yaml", all("models", ".yaml", 4000), [](const auto& f) { load_run_spec(f); }},
      {"machine", ".yaml", all("machines", ".yaml", 4000), read_machine},
      {"runs", ".csv", all("published", ".csv", 3000), [](const auto& f) { read_published(f); }},
      {"collectives",
       ".csv",
       {read_file(source / "configs/published/collectives.csv").substr(0, 3000)},
       [](const auto& f) { collectives_from(read_csv(f)); }}};
  for (std::string& s : t[0].seeds)  // the base that lies beside the input
    for (size_t at = 0; (at = s.find("../models/", at)) != std::string::npos;)
      s.replace(at, s.find(".yaml", at) - at, "base");
  t[2].seeds.push_back(
      t[2].seeds.front() +
      "\ncluster: {scheduler: pbs, start: pals, ranks_per_node: 2, cores: [4-7, 8-11], queue: debug,\n"
      "  preamble: [[source, /x]], environment: {A: 1}, directives: [-lfilesystems=home], retries: 2}\n");
  return t;
}

// ------------------------------------------------------------------------------------------------ runs
constexpr double kSlow_s = 5;

struct Counts {
  int64_t accepted = 0, refused = 0;
  int64_t unnamed = 0;  // refused by a message that does not name file, key and mend
  int64_t thrown = 0;   // left by another exception
  int64_t slow = 0;     // took more than kSlow_s of processor time
  int64_t wrong() const { return unnamed + thrown + slow; }
};

// What a message lacks: "FILE: 'KEY': what is wrong -> mend", where FILE is the input or the base beside it;
// a sweep's "FILE: axes: 'KEY': …" says in which of its sections.
std::string lacking(const std::string& message, const std::string& folder) {
  if (!message.starts_with(folder + "/")) return "names no file: ";
  const size_t suffix = message.find_first_of(": ", folder.size());
  size_t key = suffix;
  static const std::regex kSection("^: (axes|set|include|exclude|baselines)(\\[[0-9]+\\])?");
  std::smatch section;
  const std::string rest = suffix == std::string::npos ? "" : message.substr(suffix, 40);
  if (std::regex_search(rest, section, kSection)) key += section.str().size();
  if (key == std::string::npos || message.compare(key, 3, ": '") != 0 ||
      message.find("': ", key + 4) == std::string::npos)
    return "names no key: ";
  const size_t mend = message.rfind(" -> ");
  if (mend == std::string::npos || mend + 4 >= message.size()) return "names no mend: ";
  return "";
}

// What is wrong with how `file` was taken; "" when nothing is.
std::string try_one(const Target& t, const std::string& file, Counts& c) {
  try {
    t.read(file);
    ++c.accepted;
    return "";
  } catch (const ConfigError& e) {
    ++c.refused;
    const std::string what = lacking(e.what(), fs::path(file).parent_path().string());
    if (!what.empty()) ++c.unnamed;
    return what.empty() ? "" : what + e.what();
  } catch (const std::exception& e) {
    ++c.thrown;
    return std::string("another exception: ") + e.what();
  }
}

std::string input(const Target& t, uint64_t seed, int64_t number) {
  Random r(seed * 1'000'003 + static_cast<uint64_t>(number));
  std::string text = t.seeds[below(r, t.seeds.size())];
  for (size_t n = 1 + below(r, 6); n > 0; --n) mutate(text, t.seeds[below(r, t.seeds.size())], r);
  return text;
}

int run(const fs::path& source, uint64_t seed, int64_t first, int64_t inputs) {
  const std::vector<Target> all = targets(source);
  std::string folder =
      (fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) / "isobar-fuzz-XXXXXX";
  if (!::mkdtemp(folder.data())) throw std::runtime_error("mkdtemp");
  std::ofstream(folder + "/base.yaml") << "net: {embed_dim: 64, depth: 1}\ntrain: {global_batch: 8}\n";
  std::printf("seed %llu, inputs in %s\n", static_cast<unsigned long long>(seed), folder.c_str());
  std::map<std::string, Counts> counts;
  int64_t shown = 0;
  double slowest = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = first; i < first + inputs; ++i) {
    const Target& t = all[static_cast<size_t>(i) % all.size()];
    const std::string file = folder + "/mutated" + t.suffix;
    std::ofstream(file, std::ios::binary) << input(t, seed, i);
    const std::clock_t at = std::clock();  // of this process: a busy machine makes no input slow
    const std::string wrong = try_one(t, file, counts[t.name]);
    const double took = static_cast<double>(std::clock() - at) / CLOCKS_PER_SEC;
    slowest = std::max(slowest, took);
    if (took > kSlow_s) ++counts[t.name].slow;
    if (!wrong.empty() || took > kSlow_s) {
      if (++shown <= 20)
        std::printf("WRONG: input %lld (%s): %s\n", static_cast<long long>(i), t.name.c_str(),
                    wrong.empty() ? "took too long" : wrong.substr(0, 400).c_str());
    }
  }
  int64_t wrong = 0;
  for (const auto& [name, c] : counts) {
    std::printf(
        "%-12s %9lld accepted %9lld refused, %lld of them unnamed; %lld other exceptions, %lld slow\n",
        name.c_str(), static_cast<long long>(c.accepted), static_cast<long long>(c.refused),
        static_cast<long long>(c.unnamed), static_cast<long long>(c.thrown), static_cast<long long>(c.slow));
    wrong += c.wrong();
  }
  std::printf("%lld inputs in %.1f s, the slowest %.3f s\n", static_cast<long long>(inputs),
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), slowest);
  fs::remove_all(folder);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace isobar

int main(int argc, char** argv) {
  std::map<std::string, std::string> given = {{"--source", "."}, {"--inputs", "20000"}};
  for (int i = 1; i < argc; i += 2) {
    const std::set<std::string> known = {"--source", "--inputs", "--seed", "--only"};
    if (!known.contains(argv[i]) || i + 1 == argc) {
      std::fprintf(stderr, "%s: give --source DIR, --inputs N, --seed N or --only N\n", argv[i]);
      return 2;
    }
    given[argv[i]] = argv[i + 1];
  }
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a crash leaves what was printed
  const uint64_t seed = given.contains("--seed") ? std::stoull(given["--seed"]) : std::random_device{}();
  const bool one = given.contains("--only");
  return isobar::run(given["--source"], seed, one ? std::stoll(given["--only"]) : 0,
                     one ? 1 : std::stoll(given["--inputs"]));
}
