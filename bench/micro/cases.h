// Google Benchmark cases for the ops of a real plan on the CPU backend, timed within a step (timed_step.h).
// Names and counters derive from op descriptors, and perfmodel/fitting/calibrate.h reads them.
//
//   register_op_cases({spec}, {1, 2});  register_peak_cases(2);  register_read_cases(dir);
//   nlohmann::json j = run_registered("calibrate");      // Google Benchmark's JSON
#pragma once
#include <benchmark/benchmark.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/comm/comm.h"
#include "model/plan/ops/op.h"

namespace isobar::micro {

/// Every distinct op of the specs' steps, on each number of OpenMP threads, while `ranks` processes (started
/// by the caller) do the same on this host. Repetitions go over all steps in turn, so that a disturbance of
/// seconds affects one repetition of an op and not all.
void register_op_cases(const std::vector<RunSpec>& specs, const std::vector<int>& threads, int64_t ranks = 1);
/// Rank 0's ops with the shapes of a given run that are not in `known`, which is extended; the machine file
/// stores them by shape (perfmodel/step/shapes.h). Returns whether there were any.
bool register_shape_cases(const RunSpec& spec, int threads, std::set<std::string>& known);
/// Peak rates of this machine: matrix products in cache, and a copy larger than any cache.
void register_peak_cases(int threads);
/// Cases of one loader thread: noise, and files of each format created under `scratch`. The fields of the run
/// `own` replace one of the formats; throws ConfigError if they cannot be read.
void register_read_cases(const std::filesystem::path& scratch, const RunSpec* own = nullptr);
/// Checkpoints of two sizes as the engine writes them, in a temporary folder on the disk of `scratch`. Every
/// rank registers and runs the same cases.
void register_checkpoint_cases(const std::filesystem::path& scratch, const comm::Mpi& mpi);
/// Collectives of several sizes through the executor; every rank registers and runs the same cases. Between
/// hosts only all-reduces of f32 are needed, for latency and bandwidth; within a host sums and copies are
/// distinguished.
void register_collective_cases(const comm::Mpi& mpi, int threads, bool between_hosts = false);

/// Two small nets whose ranks synchronise between ops: a partitioned graph and a transformer with tp.
std::vector<RunSpec> meeting_specimens(int64_t ranks);
/// Waiting time between the ranks of this run's step; all ranks must form one tp or cp group. Returns false
/// if they do not, if ranks share cores, or if the run is in `known` (which is extended).
bool register_lockstep_case(const RunSpec& spec, const comm::Mpi& mpi, std::set<std::string>& known);

/// Counters of an attention's head (calibrate.h); none for other ops.
void set_head(benchmark::State& state, const plan::Op& op);

/// Registers a case with the progress display.
benchmark::internal::Benchmark* register_case(const std::string& name,
                                              std::function<void(benchmark::State&)> body);

/// Runs and clears the registered cases, with a progress bar on rank 0.
nlohmann::json run_registered(const std::string& title, bool show_progress = true);

}  // namespace isobar::micro
