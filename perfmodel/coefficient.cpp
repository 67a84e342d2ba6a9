#include "perfmodel/coefficient.h"

namespace isobar {
namespace {

using R = Resource;
constexpr CoefficientInfo kTable[] = {
    {Coef::gemm_f32, "gemm.f32", "s/FLOP", "matrix products", R::compute, "gemm", "f32"},
    {Coef::gemm_bf16, "gemm.bf16", "s/FLOP", "matrix products", R::compute, "gemm", "bf16"},
    {Coef::gemm_bytes, "gemm.bytes", "s/B", "matrix products", R::memory, "bytes", nullptr},
    {Coef::gemm_call, "gemm.call", "s", "matrix products", R::serial, "calls", nullptr},
    {Coef::attention_f32, "attention.forward.f32", "s/FLOP", "attention", R::compute, "attention", "f32"},
    {Coef::attention_bf16, "attention.forward.bf16", "s/FLOP", "attention", R::compute, "attention", "bf16"},
    {Coef::attention_backward_f32, "attention.backward.f32", "s/FLOP", "attention", R::compute, "attention",
     "f32"},
    {Coef::attention_backward_bf16, "attention.backward.bf16", "s/FLOP", "attention", R::compute, "attention",
     "bf16"},
    {Coef::norm, "norm", "s/B", "norms", R::memory, "bytes", nullptr},
    {Coef::gelu, "gelu", "s/B", "activations", R::memory, "bytes", nullptr},
    {Coef::reduction, "reduction", "s/B", "bias sums", R::memory, "bytes", nullptr},
    {Coef::copy, "copy", "s/B", "copies", R::memory, "bytes", nullptr},
    {Coef::loss, "loss", "s/B", "loss", R::memory, "bytes", nullptr},
    {Coef::optimizer, "optimizer", "s/B", "optimizer", R::memory, "bytes", nullptr},
    {Coef::vector, "vector", "s/FLOP", "row arithmetic", R::compute, "vector", nullptr},
    {Coef::spill, "spill", "s/B", "cache misses", R::memory, "spill", nullptr},
    {Coef::op, "op", "s", "op overhead", R::serial, "calls", nullptr},
    {Coef::fork, "fork", "s", "op overhead", R::fork, "calls", nullptr},
    {Coef::step, "step", "s", "step overhead", R::serial, "step", nullptr},
    {Coef::read_noise, "read.noise", "s/B", "data", R::read, "read", nullptr},
    {Coef::read_hdf5, "read.hdf5", "s/B", "data", R::read, "read", nullptr},
    {Coef::read_netcdf, "read.netcdf", "s/B", "data", R::read, "read", nullptr},
    {Coef::read_sample, "read.sample", "s", "data", R::read, "read_sample", nullptr},
    {Coef::message_host, "all_reduce.host.message", "s", "communication", R::wire, "message", nullptr},
    {Coef::wire_host, "all_reduce.host.bytes", "s/B", "communication", R::wire, "wire", nullptr},
    {Coef::threads_serial, "threads.serial", "1", "", R::sharing, "threads", nullptr},
    {Coef::share_compute, "share.compute", "1", "", R::sharing, "share", nullptr},
    {Coef::share_memory, "share.memory", "1", "", R::sharing, "share", nullptr},
    {Coef::steal, "read.steal", "1", "", R::sharing, "steal", nullptr},
    {Coef::overlap_slowdown, "overlap.slowdown", "1", "", R::sharing, "overlap", nullptr},
    {Coef::imbalance, "ranks.imbalance", "1", "", R::sharing, "imbalance", nullptr},
    {Coef::process, "process.memory", "B", "", R::bytes, "process", nullptr},
};
constexpr bool in_order() {
  for (size_t i = 0; i < kCoefs; ++i)
    if (index_of(kTable[i].coef) != i) return false;
  return true;
}
static_assert(std::size(kTable) == kCoefs && in_order(), "one line for each Coef, in the order of the enum");

}  // namespace

const CoefficientInfo& info_of(Coef c) {
  return kTable[index_of(c)];
}

std::optional<Coef> coef_named(const std::string& name) {
  for (const CoefficientInfo& info : kTable)
    if (name == info.name) return info.coef;
  return std::nullopt;
}

}  // namespace isobar
