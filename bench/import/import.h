// Measurements of other engines and tools become results that `isobar fit` and `isobar report` read.
//
//   import_published("mine.csv", {.out = "results/mine", .only = "A100"});   // columns of configs/published
//   import_kineto({"trace.json"}, "run.yaml", "results/torch");              // PyTorch's profiler
//   Collectives c = read_nccl_tests("all_reduce.log", "");                   // what nccl-tests printed
//   Machine m = with_links(load_machine("dgx.yaml"), c);
//
// Each run gets a directory as a sweep's trial has one (trial.json, status.json, result.jsonl), named by what
// defines it, so that importing twice changes nothing, and the same specification measured by somebody else
// is a repetition. What cannot be taken over is counted with its reason.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "bench/sweep/results.h"
#include "perfmodel/machine/machine.h"

namespace isobar {

struct Imported {
  size_t runs = 0;
  std::map<std::string, size_t> refused;     // reason -> how many
  std::map<std::string, std::string> first;  // reason -> where the first of them stands: "line 7", "row a12"
  std::vector<std::string> notes;            // what was left out of a run or assumed of it
};

struct PublishedImport {
  std::filesystem::path out;  // results directory
  std::string only;           // rows whose gpu_type holds this text; "": all
};
Imported import_published(const std::string& csv, const PublishedImport& options);

/// Traces of torch.profiler (export_chrome_trace) with ProfilerStep marks: one a rank, or several of one run,
/// of which the slowest step counts. `config` says what was trained.
Imported import_kineto(const std::vector<std::string>& traces, const std::string& config,
                       const std::filesystem::path& out);

/// Seconds of their steps alone, the slowest rank's, in order; adds what was left out or assumed to `notes`.
std::vector<double> kineto_steps(const std::vector<std::string>& traces, std::vector<std::string>& notes);

struct CollectiveTime {
  std::string collective;  // all_reduce | all_gather | reduce_scatter | alltoall | broadcast
  int64_t ranks = 0, hosts = 0;
  double bytes = 0, seconds = 0;  // out of place
  double algbw = 0, busbw = 0;    // GB/s, as the tool printed them
};
struct Collectives {
  std::string file, device;
  std::vector<CollectiveTime> rows;
};
/// `collective`: for logs that do not name it; "": taken from the log, else from the file's name.
Collectives read_nccl_tests(const std::string& file, const std::string& collective);
/// In the columns of configs/published/collectives.csv, for `isobar score`.
std::string to_csv(const Collectives& c);
/// The machine with the latency and bandwidth of these measurements: between hosts where there were several,
/// else inside a host.
Machine with_links(Machine m, const Collectives& c);

/// Writes one run as the sweep would have: `spec`, `step_s` ... of `r` are taken, and `steps` if there are
/// any.
void write_imported_run(const RunRecord& r, const std::filesystem::path& results);
bool is_kineto(const std::string& text);
bool is_nccl_tests(const std::string& text);

/// Whether a file holds weights, by how it begins: a zip archive, a pickle or safetensors.
bool is_weights(const std::filesystem::path& file);
/// Weights of the net of `config`, as the program has them that it was published with (nets/published.h): a
/// checkpoint of PyTorch or safetensors. `to`: safetensors for train.init_from. Returns what was left out, a
/// line each. Throws ConfigError.
std::string import_weights(const std::filesystem::path& file, const std::string& config,
                           const std::filesystem::path& to);

}  // namespace isobar
