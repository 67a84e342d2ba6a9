// Fuzzing of every input format: a randomly mutated input must be accepted, or rejected by one ConfigError
// that names the file and a fix (for text also key, line or column).
//
//   fuzz_inputs --source DIR --inputs 100000 --seed 1             # ends with a line of counts; 1 when wrong
//   fuzz_inputs --source DIR --readers ckpt,cached                # of some readers alone
//   fuzz_inputs --source DIR --seed 1 --only 17 --keep /tmp/x     # one input again, kept in that folder
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace isobar::fuzz {

using Random = std::mt19937_64;

inline size_t below(Random& r, size_t n) {
  return n == 0 ? 0 : static_cast<size_t>(r() % n);
}

void mutate_text(std::string& text, const std::string& other, Random& r);
/// Flips, cuts, splices, and extreme values where lengths, counts and addresses may be stored.
void mutate_bytes(std::string& bytes, const std::string& other, Random& r);

struct Target {
  std::string name;
  std::string file;  // the input's file, relative to the inputs' folder
  std::vector<std::string> seeds;
  bool text;  // mutate as text
  std::function<void(const std::string& file)> read;
  bool keyed = false;  // rejections must name a key, line or column
};

inline void put(const std::filesystem::path& file, const std::string& text) {  // creates its folder too
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

/// YAML and tables; writes files that they refer to into `folder`.
std::vector<Target> text_targets(const std::filesystem::path& source, const std::filesystem::path& folder);
/// npy, HDF5, netCDF and Zarr.
std::vector<Target> data_targets(const std::filesystem::path& folder);
/// Files of runs and of other programs: safetensors, state.json, result.jsonl, traces, logs.
std::vector<Target> record_targets(const std::filesystem::path& source, const std::filesystem::path& folder);
/// Files of sweeps and their cluster jobs: job.json, sweep.json, accounting.json and more.
std::vector<Target> sweep_targets(const std::filesystem::path& folder);

/// Checkpoints opened by the inference library: state.json, model.safetensors.
std::vector<Target> library_targets(const std::filesystem::path& folder);

/// Checkpoints of PyTorch, and the pickle in them.
std::vector<Target> import_targets(const std::filesystem::path& folder);
/// Output, tables and event files of other programs; recorded nets, tokenizers, weights in several files.
std::vector<Target> guest_targets(const std::filesystem::path& source, const std::filesystem::path& folder);
/// Tables and statistics kept of data in $ISOBAR_CACHE_DIR, which lies in `folder`.
std::vector<Target> cache_targets(const std::filesystem::path& folder);

/// Input `number` of a seed: always the same bytes.
std::string input_of(const Target& t, uint64_t seed, int64_t number);

struct Verdict {
  bool accepted = false;
  std::string wrong;  // what was wrong with the reaction; "": nothing
  double cpu_s = 0;
};
Verdict try_one(const Target& t, const std::string& file);

/// Counts of a batch; see worker.cpp.
struct Report {
  int64_t accepted = 0, refused = 0, wrong = 0;
  double slowest_s = 0;
};
struct Batch {
  const std::vector<Target>& targets;
  std::filesystem::path folder, keep;
  uint64_t seed;
  int64_t first, count;
};
/// Reads the inputs in forked workers, so that a signal, a hang (20 s) or use of 2 GiB of memory is detected
/// and the input kept. Adds to `reports`, one a target.
void run_batch(const Batch& b, std::vector<Report>& reports);

}  // namespace isobar::fuzz
