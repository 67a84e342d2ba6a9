#include "model/backend/cpu/cpu_backend.h"

#include <stdexcept>

#include "model/base/latitude.h"

namespace isobar {
const std::vector<double>& CpuBackend::row_weights(const LossAttrs& a) {
  std::vector<double>& rows = rows_[a.image.height];
  if (rows.empty()) rows = isobar::row_weights(a.image.height, a.weighed().latitudes);
  return rows;
}

void CpuBackend::launch(const Program& program, const RowRun& run) {
  std::vector<cpu::Layer> layers;
  const int32_t slot = program.instrs[static_cast<size_t>(run.first)].slot;
  const auto floats = [&](const View& v) { return reinterpret_cast<float*>(at(v, slot)); };
  const auto op = [&](int32_t i) -> const Op& {
    return plan_.ops[static_cast<size_t>(program.instrs[static_cast<size_t>(i)].op)];
  };
  constexpr OpKind kGemm = OpKind::gemm;
  for (int32_t i = run.first; i < run.end; ++i) {
    const Op& o = op(i);
    if (o.kind == OpKind::activation)
      layers.back().activation = o.as<ActivationAttrs>().function;
    else
      layers.push_back({o.as<GemmAttrs>().n,
                        o.as<GemmAttrs>().k,
                        floats(in<kGemm>(o, "B")),
                        floats(in<kGemm>(o, "bias")),
                        {}});
  }
  const Op &first = op(run.first), &last = op(run.end - 1);
  cpu::layers(first.as<GemmAttrs>().m, layers, floats(in<kGemm>(first, "A")),
              floats(last.kind == kGemm ? out<kGemm>(last, "C") : out<OpKind::activation>(last, "g")));
}

void CpuBackend::launch(const Op& op, int32_t micro, int32_t slot) {
  const auto run = ops_[op.kind];
  if (!run) throw std::logic_error(op.path + ": the CPU backend does not run this kind");
  run({*this, op, micro, slot});
}

}  // namespace isobar
