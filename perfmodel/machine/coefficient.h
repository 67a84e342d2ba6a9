// The coefficients that turn counts into seconds: names, units and kinds, one table for the machine file, the
// cost model and the fit. A new term is a line of the table in coefficient.cpp and a count in op_terms.cpp.
//
//   const CoefficientInfo& info = info_of(Coef::gemm_f32);   // "gemm.f32", "s/FLOP", Resource::compute
//
// A coefficient is the price of one unit with one thread alone; coefficients of Resource::sharing (cost.h)
// describe how threads and ranks share the host. An accelerator counts as one thread on its own core.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace isobar::perf {

enum class Coef : int32_t {
  gemm_f32,
  gemm_tf32,
  gemm_bf16,
  gemm_fp8,
  gemm_bytes,
  gemm_call,
  attention_f32,
  attention_tf32,
  attention_bf16,
  attention_backward_f32,
  attention_backward_tf32,
  attention_backward_bf16,
  attention_bytes,
  softmax_f32,
  softmax_bf16,
  softmax_backward_f32,
  softmax_backward_bf16,
  norm,
  gelu,
  reduction,
  copy,
  copy_host,
  loss,
  optimizer,
  vector,
  spill,
  op,
  fork,
  step,
  host_op,
  read_noise,
  read_hdf5,
  read_netcdf,
  read_zarr,
  read_decode,
  read_sample,
  read_table,
  read_row,
  read_handover,
  message_host,
  wire_host,
  message_net,
  wire_net,
  collective_call,
  sum_host,
  threads_serial,
  share_compute,
  share_memory,
  steal,
  overlap_slowdown,
  imbalance,
  lockstep,
  commit,
  checkpoint,
  process,
};
constexpr size_t kCoefs = static_cast<size_t>(Coef::process) + 1;
constexpr size_t index_of(Coef c) {
  return static_cast<size_t>(c);
}

/// Amounts: one number for each coefficient, in its unit (FLOP, B, calls, ...).
using Counts = std::array<double, kCoefs>;

enum class Resource : uint8_t {
  compute,  // arithmetic: divided among threads, slowed by other busy cores (share.compute)
  memory,   // bytes: divided among threads, slowed by other users of the memory (share.memory)
  serial,   // one thread's time, for any number of threads
  fork,     // starting and joining a team: grows with log2(threads)
  wire,     // communication, inside a host or between hosts
  host,     // the processor that feeds an accelerator: hidden unless it falls behind
  read,     // data loading, CPU-seconds of one loader thread
  sharing,  // no price: how the others share the host
  write,    // checkpoints: between steps, while training stops
  bytes,    // not part of a step: memory of the process
};

struct CoefficientInfo {
  const char* name;    // in machine files
  const char* unit;    // s/FLOP, s/B, s, 1, B
  const char* term;    // the line of a prediction that shows it
  const char* family;  // members are shrunk towards each other
  const char* peak;    // f32 | tf32 | bf16 | fp8: at least 1/peak of one core; nullptr: no bound
  Coef coef;
  Resource resource;
};

extern const std::array<CoefficientInfo, kCoefs> kCoefficients;
inline const CoefficientInfo& info_of(size_t i) {
  return kCoefficients[i];
}
inline const CoefficientInfo& info_of(Coef c) {
  return info_of(index_of(c));
}
std::optional<Coef> coef_named(const std::string& name);
/// True for a coefficient of older machine files that is no longer priced: it is ignored.
bool is_former(const std::string& name);

}  // namespace isobar::perf
