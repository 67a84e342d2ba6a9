// A rank's persistent buffers on the host: in place on a CPU; on a GPU copies, valid after a download and
// written back by an upload (Backend::host).
//
//   PlanMemory memory(plan, backend);
//   memory.download_weights();
//   save_checkpoint(…, memory.params(), memory.adam_m(), …);
#pragma once
#include <algorithm>

#include "model/backend/backend.h"
#include "model/base/spec/spec.h"
#include "model/plan/plan.h"

namespace isobar::engine {

/// The loss is scaled, and steps whose gradients overflow are skipped.
inline bool scales_loss(const RunSpec& spec) {
  return spec.policy.amp == Amp::fp16;
}

class PlanMemory {
 public:
  PlanMemory(const plan::Plan& plan, Backend& backend)
      : plan_(plan),
        backend_(backend),
        some_halves_(std::any_of(plan.params.begin(), plan.params.end(),
                                 [](const plan::Param& p) { return p.half; })) {}

  // null: the plan has no such buffer
  float* params() const { return floats(plan_.params_all); }
  float* adam_m() const { return floats(plan_.adam_m); }
  float* adam_v() const { return floats(plan_.adam_v); }
  float* average() const { return floats(plan_.ema_all); }
  float* scalars() const { return floats(plan_.scalars); }
  /// Parameters in 16 bits, if some are stored in no other form.
  std::byte* halves() const { return some_halves_ ? backend_.host(plan_.params16_all) : nullptr; }
  float* floats(const plan::View& v) const {
    return v ? reinterpret_cast<float*>(backend_.host(v)) : nullptr;
  }

  /// With the optimizer's moments and the moving average.
  void download_weights() const {
    backend_.download({plan_.params_all, plan_.adam_m, plan_.adam_v});
    if (some_halves_) backend_.download({plan_.params16_all});
    if (plan_.ema_all) backend_.download({plan_.ema_all});
  }
  /// With the scalars; `moments`: the optimizer's too.
  void upload_weights(bool moments) const {
    backend_.upload({plan_.params_all, plan_.scalars});
    if (some_halves_) backend_.upload({plan_.params16_all});
    if (plan_.ema_all) backend_.upload({plan_.ema_all});
    if (moments) backend_.upload({plan_.adam_m, plan_.adam_v});
  }

 private:
  const plan::Plan& plan_;
  Backend& backend_;
  const bool some_halves_;
};

}  // namespace isobar::engine
