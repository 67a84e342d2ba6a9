// Google Benchmark cases built from op descriptors: the ops of a real plan on the CPU backend, timed within
// its step (timed_step.h). Names, counters and context are what perfmodel/fitting/calibrate.h reads; nothing
// is described here a second time.
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

#include "model/base/spec.h"
#include "model/comm/comm.h"
#include "model/plan/op.h"

namespace isobar {

/// Every op of the specs' steps with its own kind and shape, on each of so many OpenMP threads; `ranks`
/// processes of this host do the same at this time (started by the caller). All steps are timed once, then
/// all again: what disturbs a machine for seconds is in one repetition of an op, then, and not in all.
void register_op_cases(const std::vector<RunSpec>& specs, const std::vector<int>& threads, int64_t ranks = 1);
/// The same with the shapes of a run at hand, which the machine file then knows by name
/// (perfmodel/step/shapes.h): those of rank 0 that are not among `known`, which grows. Whether there were
/// any.
bool register_shape_cases(const RunSpec& spec, int threads, std::set<std::string>& known);
/// Largest rates that the libraries reach here: products that stay in cache, and a pass over memory that does
/// not.
void register_peak_cases(int threads);
/// One loader thread: noise, and files of each format made under `scratch`, in place of one of which come the
/// fields of `own`, a run at hand. Throws ConfigError for what of these cannot be read.
void register_read_cases(const std::filesystem::path& scratch, const RunSpec* own = nullptr);
/// Checkpoints of two sizes as the engine writes them, on the disk that holds `scratch`; it is removed. Every
/// rank registers and runs the same.
void register_checkpoint_cases(const std::filesystem::path& scratch, const Mpi& mpi);
/// Collectives of several sizes through the executor; every rank registers and runs the same. Between hosts
/// all-reduces of f32 tell what a message and a byte cost; inside one, sums are told from copies.
void register_collective_cases(const Mpi& mpi, int threads, bool between_hosts = false);

/// Steps of two small nets whose ranks meet between ops: a graph that is cut, a transformer under tp.
std::vector<RunSpec> meeting_specimens(int64_t ranks);
/// What ranks wait for one another in steps of this run, whose world must be the ranks that register it, all
/// of one tp or cp group. False where it is none, among `known` (which grows), or where ranks share
/// cores.
bool register_lockstep_case(const RunSpec& spec, const Mpi& mpi, std::set<std::string>& known);

/// Registers one, so that run_registered's progress knows of it.
benchmark::internal::Benchmark* register_case(const std::string& name,
                                              std::function<void(benchmark::State&)> body);

/// Runs what is registered, with a progress bar on rank 0, and forgets it.
nlohmann::json run_registered(const std::string& title, bool show_progress = true);

}  // namespace isobar
