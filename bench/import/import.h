// Imports measurements of other engines and tools as results for `isobar fit` and `isobar report`.
//
//   import_published("mine.csv", "results/mine", "A100");                    // columns of configs/published
//   import_kineto({"trace.json"}, "run.yaml", "results/torch");              // PyTorch's profiler
//   Collectives c = read_nccl_tests("all_reduce.log", "");                   // output of nccl-tests
//   Machine m = with_links(load_machine("dgx.yaml"), c);
//
// Each run gets a trial directory like a sweep's (trial.json, status.json, result.jsonl), named by its
// specification, so that a second import changes nothing and the same specification from another source is a
// repetition. Runs that cannot be imported are counted by reason.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/records/results.h"
#include "perfmodel/machine/machine.h"

namespace isobar::foreign {

struct Imported {
  size_t runs = 0;
  std::map<std::string, size_t> refused;     // reason -> count
  std::map<std::string, std::string> first;  // reason -> place of the first: "line 7", "row a12"
  std::vector<std::string> notes;            // omissions and assumptions
};

/// `out`: a results directory; `only`: rows whose gpu_type contains this.
Imported import_published(const std::string& csv, const std::filesystem::path& out,
                          const std::string& only = "");

/// Imports traces of torch.profiler (export_chrome_trace) with ProfilerStep marks, one for each rank of a
/// run; the slowest rank counts in each step. `config`: the trained specification.
Imported import_kineto(const std::vector<std::string>& traces, const std::string& config,
                       const std::filesystem::path& out);

/// Step times of the slowest rank in seconds, in order; adds omissions and assumptions to `notes`. `world`
/// gets the number of ranks where the traces say it.
std::vector<double> kineto_steps(const std::vector<std::string>& traces, std::vector<std::string>& notes,
                                 std::optional<int64_t>* world = nullptr);

struct CollectiveTime {
  std::string collective;  // all_reduce | all_gather | reduce_scatter | alltoall | broadcast
  int64_t ranks = 0, hosts = 0;
  double bytes = 0, seconds = 0;  // out of place
  double algbw = 0, busbw = 0;    // GB/s, as printed
};
struct Collectives {
  std::string file, device;
  std::vector<CollectiveTime> rows;
};
/// `collective`: for logs that do not name it; "": from the log, else from the file's name.
Collectives read_nccl_tests(const std::string& file, const std::string& collective);
/// Formats measurements with the columns of configs/published/collectives.csv, for `isobar score`.
std::string to_csv(const Collectives& c);
/// The machine with latency and bandwidth from these measurements: of the network if they span several hosts,
/// else within a host.
perf::Machine with_links(perf::Machine m, const Collectives& c);

/// Writes one run like a sweep's trial, from `spec`, `step_s` … of `r`, and from `steps` if there are any.
void write_imported_run(const records::RunRecord& r, const std::filesystem::path& results);
bool is_kineto(const std::string& text);
bool is_nccl_tests(const std::string& text);

/// True for a file of weights, judged by its first bytes: a zip archive, a pickle or safetensors.
bool is_weights(const std::filesystem::path& file);
/// Converts published weights of the net in `config` (nets/published/published.h), from a PyTorch checkpoint
/// or safetensors, to safetensors for train.init_from. Returns a line for each omission; throws ConfigError.
std::string import_weights(const std::filesystem::path& file, const std::string& config,
                           const std::filesystem::path& to);

/// True for net.py:build and package.module:build: what builds a model in PyTorch, not a file.
bool is_torch_target(const std::string& text);
/// A net written in PyTorch, recorded by torch_graph.py in the user's Python as a file for net.kind traced.
/// `inputs`: of one sample, "3x224x224", "tokens=1024:int64"; `loss`: mse | cross_entropy; "": the model's
/// own, else mse; `python`: "": $ISOBAR_PYTHON, else python3 of PATH. Returns what was recorded and assumed,
/// in lines. Throws ConfigError for what cannot be recorded.
std::string import_torch_net(const std::string& target, const std::vector<std::string>& inputs,
                             const std::string& loss, const std::string& python, const std::string& out);

}  // namespace isobar::foreign
