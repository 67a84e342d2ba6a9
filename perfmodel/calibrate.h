// A machine from Google Benchmark's JSON, as bench/micro's cases write it.
//
//   Machine m = machine_from_benchmarks(nlohmann::json::parse(text));
//   save_machine(m, "configs/machines/local.yaml");
//
// A benchmark's name begins with KIND/DTYPE: KIND is the name of an op (gemm, attention, residual_norm, ...,
// all_reduce), or read_noise, read_hdf5, read_netcdf (CPU time of one loader thread), or peak (in cache,
// one core) or stream (memory, all cores); DTYPE is f32 or bf16. The rest of the name is free. Counters, all
// of ONE iteration (plain numbers, not rates):
//
//   ops            all kinds  how many ops an iteration runs (default 1)
//   flops, vector_flops, bytes                            of Work (model/plan/work.h): all ops of the
//   iteration wire_bytes, messages                                  all_reduce: of Work bytes, samples read_*
//   bytes of fields that are made or read: input and target threads        all kinds  compute threads
//   (default 1);  ranks: ranks at work on this host (default 1)
//
// Repetitions of a case (same run_name) count as their fastest. Cases with threads > 1 tell what sharing
// among threads costs only together with cases that several ranks run at the same time (ranks > 1, threads =
// 1).
//
// The context (benchmark::AddCustomContext) carries cpu, isa, cores, memory_bytes and cache_bytes; host_name,
// num_cpus and caches, which Google Benchmark writes itself, stand in for what is left out.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "perfmodel/machine.h"

namespace isobar {

/// `file` is for messages. Throws ConfigError for a benchmark that it cannot use.
Machine machine_from_benchmarks(const nlohmann::json& gbench, const std::string& file = "benchmarks");
/// The same machine with what its network costs, from all-reduces over the ranks of several hosts.
Machine with_network(Machine m, const nlohmann::json& gbench, const std::string& file = "benchmarks");

}  // namespace isobar
