// A machine from the JSON of Google Benchmark that bench/micro writes.
//
//   Machine m = machine_from_benchmarks(nlohmann::json::parse(text));
//   save_machine(m, "configs/machines/local.yaml");
//
// A benchmark's name begins with KIND/DTYPE. KIND is the name of an op (gemm, attention, residual_norm, ...,
// all_reduce), lockstep (waits of ranks that synchronise between ops), read_noise, read_hdf5, read_netcdf,
// read_zarr (uncompressed), read_decode (compressed Zarr), read_table (CPU time of one loader thread),
// checkpoint (all ranks together, on disk), peak (in cache, one core) or stream (memory, all cores). DTYPE is
// f32 or bf16, and the rest of the name is free. Counters, all of ONE iteration (plain numbers, not rates):
//
//   ops: all kinds: ops an iteration runs (default 1)
//   flops, vector_flops, bytes: of Work (model/plan/ops/work.h), all ops of the iteration
//   wire_bytes, messages: all_reduce: of Work; lockstep: of all transfers of a step
//   compute_s: lockstep: seconds of its ops, mean over ranks
//   bytes, samples: read_*: of fields that are made or read, input and target
//   bytes: checkpoint: of its files
//   head_size, causal (1): attention: machine files keep the factor on the price for each head size
//   own_shape: 1: an op of a given run (isobar calibrate --for): machine files keep its time by its name
//   threads: all kinds: compute threads (default 1);  ranks: ranks at work on this host (default 1)
//
// Repetitions of a case (same run_name) count as their fastest, for checkpoints as their median. Cases with
// threads > 1 show the cost of sharing only together with cases of several concurrent ranks (ranks > 1,
// threads = 1).
//
// The context (benchmark::AddCustomContext) has cpu, isa, cores, memory_bytes and cache_bytes; Google
// Benchmark's own host_name, num_cpus and caches are the fallback. `timed` gives the steps in which ops were
// timed: {"embed_dim": [128, 384], ...} (fit.h: op_quantities_of).
//
// For an accelerator the context has: accelerator (its name), processors, accelerator_memory_bytes,
// accelerator_cache_bytes, accelerators (on this host). DTYPE may be tf32, and products and attention have
// charged_flops: FLOPs rounded up to whole waves of tiles. `clock_mhz` and `watts` are the card's during the
// timing, `settled` is 1 if its clock had settled under the load: the machine file's provenance tells their
// range. `copy_host` copies `bytes` from pinned memory to the device, `step` is a whole step of `ops` small
// ops (with summed counters), `launch` the host time to enqueue `ops` of them.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/plan/plan.h"
#include "perfmodel/machine/machine.h"

namespace isobar::perf {

/// FLOPs charged for an op on an accelerator with this number of processors: the counter charged_flops.
double charged_flops(const plan::Op& op, const plan::Plan& plan, int64_t processors);

/// `file` is for messages. Throws ConfigError for an unusable benchmark.
Machine machine_from_benchmarks(const nlohmann::json& gbench, const std::string& file = "benchmarks");
/// The machine with network costs from all-reduces over ranks of several hosts.
Machine with_network(Machine m, const nlohmann::json& gbench, const std::string& file = "benchmarks");

}  // namespace isobar::perf
