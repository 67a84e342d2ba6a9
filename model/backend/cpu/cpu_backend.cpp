#include "model/backend/cpu/cpu_backend.h"

#include <stdexcept>

#include "model/base/latitude.h"

namespace isobar {
const std::vector<double>& CpuBackend::row_weights(const plan::LossAttrs& a) {
  std::vector<double>& rows = rows_[a.image.height];
  if (rows.empty()) rows = isobar::row_weights(a.image.height, a.weighed().latitudes);
  return rows;
}

void CpuBackend::launch(const plan::Program& program, const RowRun& run) {
  std::vector<cpu::Layer> layers;
  const int32_t slot = program.instrs[static_cast<size_t>(run.first)].slot;
  const auto floats = [&](const plan::View& v) { return reinterpret_cast<float*>(at(v, slot)); };
  const auto op = [&](int32_t i) -> const plan::Op& {
    return plan_.ops[static_cast<size_t>(program.instrs[static_cast<size_t>(i)].op)];
  };
  constexpr plan::OpKind kGemm = plan::OpKind::gemm;
  for (int32_t i = run.first; i < run.end; ++i) {
    const plan::Op& o = op(i);
    if (o.kind == plan::OpKind::activation)
      layers.back().activation = o.as<plan::ActivationAttrs>().function;
    else
      layers.push_back({o.as<plan::GemmAttrs>().n,
                        o.as<plan::GemmAttrs>().k,
                        floats(plan::in<kGemm>(o, "B")),
                        floats(plan::in<kGemm>(o, "bias")),
                        {}});
  }
  const plan::Op &first = op(run.first), &last = op(run.end - 1);
  cpu::layers(first.as<plan::GemmAttrs>().m, layers, floats(plan::in<kGemm>(first, "A")),
              floats(last.kind == kGemm ? plan::out<kGemm>(last, "C")
                                        : plan::out<plan::OpKind::activation>(last, "g")));
}

void CpuBackend::launch(const plan::Op& op, int32_t micro, int32_t slot) {
  const auto run = ops_[op.kind];
  if (!run) throw std::logic_error(op.path + ": the CPU backend does not run this kind");
  run({*this, op, micro, slot});
}

}  // namespace isobar
