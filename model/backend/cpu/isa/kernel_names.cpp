// The kernels by which this CPU computes a plan: for display and records, not used during a step.
#include <sstream>

#include "model/backend/cpu/cpu_backend.h"
#include "model/backend/cpu/isa/kernel_table.h"

namespace isobar {
namespace {

// The 16-bit type among an op's operands, or tf32 for such products, else f32
std::string type_name(const Op& op, const Plan& plan) {
  if (rounds_to_tf32(op.attrs)) return "tf32";
  for (const auto* views : {&op.reads, &op.writes})
    for (const View& v : *views)
      if (v && size_of(plan.buffers[v.buffer].dtype) == 2) return name_of(plan.buffers[v.buffer].dtype);
  return "f32";
}

std::string kernel_of(const Op& op, const Plan& plan) {
  if (is_collective(op.kind)) return "MPI";
  if (op.kind == OpKind::gemm) return cpu::gemm_kernel(cpu::gemm_of(op, plan));
  const std::string own = std::string("own, ") + cpu::name_of(cpu::current_isa());
  if (op.kind != OpKind::attention && op.kind != OpKind::attention_backward) return own;
  const DType t = plan.buffers[in<OpKind::attention, OpKind::attention_backward>(op, "q").buffer].dtype;
  const bool native = t == DType::f32 ? !rounds_to_tf32(op.attrs)
                                      : t == DType::bf16 && cpu::current_isa() >= cpu::Isa::avx512_bf16;
  return own + (native ? "" : " on rounded operands");
}

// Key of a kernel's choice, so that a library is asked once for each
std::string shape_of(const Op& op, const std::string& type) {
  std::ostringstream s;
  s << name_of(op.kind) << ' ' << type;
  if (op.kind == OpKind::gemm)
    s << ' ' << shape_text(op) << ' ' << op.as<GemmAttrs>().scale << ' '
      << static_cast<bool>(in<OpKind::gemm>(op, "bias"));
  return s.str();
}

}  // namespace

std::map<std::string, std::map<std::string, int64_t>> cpu_kernels(const Plan& plan) {
  std::map<std::string, std::map<std::string, int64_t>> out;
  std::map<std::string, std::string> known;
  for (const Op& op : plan.ops) {
    if (op.kind == OpKind::fetch) continue;
    const std::string type = type_name(op, plan);
    std::string& kernel = known[shape_of(op, type)];
    if (kernel.empty()) kernel = kernel_of(op, plan);
    ++out[std::string(name_of(op.kind)) + " " + type][kernel];
  }
  return out;
}

}  // namespace isobar
