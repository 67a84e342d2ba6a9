// A machine from Google Benchmark's JSON, as bench/micro's cases write it.
//
//   Machine m = machine_from_benchmarks(nlohmann::json::parse(text));
//   save_machine(m, "configs/machines/local.yaml");
//
// A benchmark's name begins with KIND/DTYPE: KIND is the name of an op (gemm, attention, residual_norm, ...,
// all_reduce), or lockstep (what ranks that meet between ops wait in a step), or read_noise, read_hdf5,
// read_netcdf, read_zarr (not compressed), read_decode (a Zarr that is), read_table (CPU time of one loader
// thread), or checkpoint (all ranks together, on disk), or peak (in cache, one core) or stream (memory, all
// cores); DTYPE is f32 or bf16. The rest of the name is free. Counters, all of ONE iteration (plain numbers,
// not rates):
//
//   ops: all kinds: how many ops an iteration runs (default 1)
//   flops, vector_flops, bytes: of Work (model/plan/work.h), all ops of the iteration
//   wire_bytes, messages: all_reduce: of Work; lockstep: of all transfers of a step
//   compute_s: lockstep: seconds of its ops, ranks on average
//   bytes, samples: read_*: of fields that are made or read, input and target
//   bytes: checkpoint: of its files
//   head_size: attention: of each head; of all cases of one size machine files keep what they are off their
//   price own_shape: 1: an op of a run at hand (isobar calibrate --for): machine files keep its time by its
//   name threads: all kinds: compute threads (default 1);  ranks: ranks at work on this host (default 1)
//
// Repetitions of a case (same run_name) count as their fastest, those of checkpoints as their median. Cases
// with threads > 1 tell what sharing among threads costs only together with cases that several ranks run at
// the same time (ranks > 1, threads = 1).
//
// The context (benchmark::AddCustomContext) carries cpu, isa, cores, memory_bytes and cache_bytes; host_name,
// num_cpus and caches, which Google Benchmark writes itself, stand in for what is left out. `timed` says in
// what steps ops were timed: {"embed_dim": [128, 384], ...} (fit.h: op_quantities_of).
//
// Benchmarks of an accelerator say so in the context: accelerator (its name), processors,
// accelerator_memory_bytes, accelerator_cache_bytes, accelerators (on this host). DTYPE may be tf32 there,
// and products and attention carry charged_flops: what the rounds of tiles cost that they run in. A case
// whose name ends in /warm found its operands in cache: it is kept in the file and not fitted to, as in a
// step they seldom are. `copy_host` is a copy of `bytes` from pinned memory to the device. Besides, `step` is a whole step of `ops` small ops (counters of their sum), and
// `launch` what the host takes to enqueue `ops` of them.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/plan/plan.h"
#include "perfmodel/machine/machine.h"

namespace isobar {

/// FLOPs that an op is charged for on an accelerator of so many processors, for the counter charged_flops.
double charged_flops(const Op& op, const Plan& plan, int64_t processors);

/// `file` is for messages. Throws ConfigError for a benchmark that it cannot use.
Machine machine_from_benchmarks(const nlohmann::json& gbench, const std::string& file = "benchmarks");
/// The same machine with what its network costs, from all-reduces over the ranks of several hosts.
Machine with_network(Machine m, const nlohmann::json& gbench, const std::string& file = "benchmarks");

}  // namespace isobar
