// The kernels by which this CPU computes a plan: for display and records, not used during a step.
#include <sstream>

#include "model/backend/cpu/cpu_backend.h"
#include "model/backend/cpu/isa/kernel_table.h"

namespace isobar {
namespace {

// The 16-bit type among an op's operands, or tf32 for such products, else f32
std::string type_name(const plan::Op& op, const plan::Plan& plan) {
  if (plan::rounds_to_tf32(op.attrs)) return "tf32";
  for (const auto* views : {&op.reads, &op.writes})
    for (const plan::View& v : *views)
      if (v && size_of(plan.buffers[v.buffer].dtype) == 2) return name_of(plan.buffers[v.buffer].dtype);
  return "f32";
}

std::string kernel_of(const plan::Op& op, const plan::Plan& plan) {
  if (plan::is_collective(op.kind)) return "MPI";
  if (op.kind == plan::OpKind::gemm) return cpu::gemm_kernel(cpu::gemm_of(op, plan));
  const std::string own = std::string("own, ") + cpu::name_of(cpu::current_isa());
  if (op.kind != plan::OpKind::attention && op.kind != plan::OpKind::attention_backward) return own;
  const DType t =
      plan.buffers[plan::in<plan::OpKind::attention, plan::OpKind::attention_backward>(op, "q").buffer].dtype;
  const bool native = t == DType::f32 ? !plan::rounds_to_tf32(op.attrs)
                                      : t == DType::bf16 && cpu::current_isa() >= cpu::Isa::avx512_bf16;
  return own + (native ? "" : " on rounded operands");
}

// Key of a kernel's choice, so that a library is asked once for each
std::string shape_of(const plan::Op& op, const std::string& type) {
  std::ostringstream s;
  s << plan::name_of(op.kind) << ' ' << type;
  if (op.kind == plan::OpKind::gemm)
    s << ' ' << plan::shape_text(op) << ' ' << op.as<plan::GemmAttrs>().scale << ' '
      << static_cast<bool>(plan::in<plan::OpKind::gemm>(op, "bias"));
  return s.str();
}

}  // namespace

std::map<std::string, std::map<std::string, int64_t>> cpu_kernels(const plan::Plan& plan) {
  std::map<std::string, std::map<std::string, int64_t>> out;
  std::map<std::string, std::string> known;
  for (const plan::Op& op : plan.ops) {
    if (op.kind == plan::OpKind::fetch) continue;
    const std::string type = type_name(op, plan);
    std::string& kernel = known[shape_of(op, type)];
    if (kernel.empty()) kernel = kernel_of(op, plan);
    ++out[std::string(plan::name_of(op.kind)) + " " + type][kernel];
  }
  return out;
}

}  // namespace isobar
