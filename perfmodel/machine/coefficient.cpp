#include "perfmodel/machine/coefficient.h"

namespace isobar::perf {

using R = Resource;
constexpr std::array<CoefficientInfo, kCoefs> kCoefficients{{
    {"gemm.f32", "s/FLOP", "matrix products", "gemm", "f32", Coef::gemm_f32, R::compute},
    {"gemm.tf32", "s/FLOP", "matrix products", "gemm", "tf32", Coef::gemm_tf32, R::compute},
    {"gemm.bf16", "s/FLOP", "matrix products", "gemm", "bf16", Coef::gemm_bf16, R::compute},
    {"gemm.fp8", "s/FLOP", "matrix products", "gemm", "fp8", Coef::gemm_fp8, R::compute},
    {"gemm.bytes", "s/B", "matrix products", "bytes", nullptr, Coef::gemm_bytes, R::memory},
    {"gemm.call", "s", "matrix products", "calls", nullptr, Coef::gemm_call, R::serial},
    {"attention.forward.f32", "s/FLOP", "attention", "attention", "f32", Coef::attention_f32, R::compute},
    {"attention.forward.tf32", "s/FLOP", "attention", "attention", "tf32", Coef::attention_tf32, R::compute},
    {"attention.forward.bf16", "s/FLOP", "attention", "attention", "bf16", Coef::attention_bf16, R::compute},
    {"attention.backward.f32", "s/FLOP", "attention", "attention", "f32", Coef::attention_backward_f32,
     R::compute},
    {"attention.backward.tf32", "s/FLOP", "attention", "attention", "tf32", Coef::attention_backward_tf32,
     R::compute},
    {"attention.backward.bf16", "s/FLOP", "attention", "attention", "bf16", Coef::attention_backward_bf16,
     R::compute},
    {"attention.bytes", "s/B", "attention", "bytes", nullptr, Coef::attention_bytes, R::memory},
    {"softmax.forward.f32", "s", "attention", "softmax", nullptr, Coef::softmax_f32, R::compute},
    {"softmax.forward.bf16", "s", "attention", "softmax", nullptr, Coef::softmax_bf16, R::compute},
    {"softmax.backward.f32", "s", "attention", "softmax", nullptr, Coef::softmax_backward_f32, R::compute},
    {"softmax.backward.bf16", "s", "attention", "softmax", nullptr, Coef::softmax_backward_bf16, R::compute},
    {"norm", "s/B", "norms", "bytes", nullptr, Coef::norm, R::memory},
    {"gelu", "s/B", "activations", "bytes", nullptr, Coef::gelu, R::memory},
    {"reduction", "s/B", "reductions", "bytes", nullptr, Coef::reduction, R::memory},
    {"copy", "s/B", "copies", "bytes", nullptr, Coef::copy, R::memory},
    {"copy.host", "s/B", "copies", "copy_host", nullptr, Coef::copy_host, R::wire},
    {"loss", "s/B", "loss", "bytes", nullptr, Coef::loss, R::memory},
    {"optimizer", "s/B", "optimizer", "bytes", nullptr, Coef::optimizer, R::memory},
    {"vector", "s/FLOP", "vector arithmetic", "vector", nullptr, Coef::vector, R::compute},
    {"spill", "s/B", "cache misses", "spill", nullptr, Coef::spill, R::memory},
    {"op", "s", "op overhead", "calls", nullptr, Coef::op, R::serial},
    {"fork", "s", "op overhead", "calls", nullptr, Coef::fork, R::fork},
    {"step", "s", "step overhead", "step", nullptr, Coef::step, R::serial},
    {"host.op", "s", "host launches", "host", nullptr, Coef::host_op, R::host},
    {"read.noise", "s/B", "data", "read", nullptr, Coef::read_noise, R::read},
    {"read.hdf5", "s/B", "data", "read", nullptr, Coef::read_hdf5, R::read},
    {"read.netcdf", "s/B", "data", "read", nullptr, Coef::read_netcdf, R::read},
    {"read.zarr", "s/B", "data", "read", nullptr, Coef::read_zarr, R::read},
    {"read.decode", "s/B", "data", "read_decode", nullptr, Coef::read_decode, R::read},
    {"read.sample", "s", "data", "read_sample", nullptr, Coef::read_sample, R::read},
    {"read.table", "s/B", "data", "read_rows", nullptr, Coef::read_table, R::read},
    {"read.row", "s", "data", "read_row", nullptr, Coef::read_row, R::read},
    {"read.handover", "s", "data", "read_handover", nullptr, Coef::read_handover, R::read},
    {"message.host", "s", "communication", "message", nullptr, Coef::message_host, R::wire},
    {"wire.host", "s/B", "communication", "wire", nullptr, Coef::wire_host, R::wire},
    {"message.net", "s", "communication", "message", nullptr, Coef::message_net, R::wire},
    {"wire.net", "s/B", "communication", "wire", nullptr, Coef::wire_net, R::wire},
    {"collective.call", "s", "communication", "calls", nullptr, Coef::collective_call, R::wire},
    {"sum.host", "s/FLOP", "communication", "sum", nullptr, Coef::sum_host, R::wire},
    {"threads.serial", "1", "", "threads", nullptr, Coef::threads_serial, R::sharing},
    {"share.compute", "1", "", "share", nullptr, Coef::share_compute, R::sharing},
    {"share.memory", "1", "", "share", nullptr, Coef::share_memory, R::sharing},
    {"read.steal", "1", "", "steal", nullptr, Coef::steal, R::sharing},
    {"overlap.slowdown", "1", "", "overlap", nullptr, Coef::overlap_slowdown, R::sharing},
    {"ranks.imbalance", "1", "", "imbalance", nullptr, Coef::imbalance, R::sharing},
    {"ranks.lockstep", "1", "", "imbalance", nullptr, Coef::lockstep, R::sharing},
    {"write.commit", "s", "", "commit", nullptr, Coef::commit, R::write},
    {"write.checkpoint", "s/B", "", "checkpoint", nullptr, Coef::checkpoint, R::write},
    {"process.memory", "B", "", "process", nullptr, Coef::process, R::bytes},
}};

namespace {

constexpr bool in_order() {
  for (size_t i = 0; i < kCoefs; ++i)
    if (index_of(kCoefficients[i].coef) != i) return false;
  return true;
}
static_assert(in_order(), "one line for each Coef, in the order of the enum");

}  // namespace

std::optional<Coef> coef_named(const std::string& name) {
  for (const CoefficientInfo& info : kCoefficients)
    if (name == info.name) return info.coef;
  return std::nullopt;
}

bool is_former(const std::string& name) {
  return name == "hops.fork" || name == "hops.line" || name == "hops.message";
}

}  // namespace isobar::perf
