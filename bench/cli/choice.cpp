#include "bench/cli/choice.h"

#include <cmath>

#include "perfmodel/fits.h"
#include "perfmodel/layout_predict.h"

namespace isobar {
namespace {

constexpr size_t kPlaced = 100;  // plans placed for a search; beyond, memory is by the closed form

Interval per_sample(const LayoutChoice& c, double per_rank_hour) {
  const double samples = static_cast<double>(c.spec.train.global_batch);
  return c.step.scaled(per_rank_hour * static_cast<double>(c.ranks()) / 3600 / samples);
}

// A checkpoint's contents depend on net and optimizer, not on the engine that writes it.
CheckpointCost checkpoint_of(LayoutModel& model, const RunSpec& spec) {
  return checkpoint_cost(spec, model.parameters(layout_of(spec)), model.machine(),
                         model.where().ranks_on_host);
}

}  // namespace

LayoutChoice choice_of(const RunSpec& spec, const Prediction& p, const Machine& m,
                       const PredictOptions& options) {
  LayoutModel model(spec, m, options.host);
  const LayoutCost c = model.cost(layout_of(spec));
  const double sigma = memory_sigma(c, m, spec.policy.zero, true);
  const double bytes = static_cast<double>(p.memory_total), width = kNormal80 * sigma;
  return {.spec = spec,
          .machine = m,
          .step = p.step,
          .memory = {bytes, bytes - width, bytes + width},
          .there = p.memory_there,
          .fits = chance_to_fit(bytes, sigma, p.memory_there),
          .mfu = rates_of(p, spec, m).mfu,
          .checkpoint = p.checkpoint};
}

LayoutChoice choice_of(const EngineLayout& l, const EngineOn& engine, const Machine& m) {
  LayoutModel model(l.spec, m);
  const StepFlops flops{model_flops(l.spec), model_flops(l.spec)};
  const double peak = peak_flops(m, model.where(), peak_of(l.spec));
  return {.spec = l.spec,
          .machine = m,
          .step = l.answer.step,
          .memory = l.answer.memory,
          .there = engine.memory(),
          .fits = l.fits,
          .mfu = rates_of(flops, l.answer.step.value, l.spec.layout.world(), peak).mfu,
          .checkpoint = checkpoint_of(model, l.spec)};
}

Interval LayoutChoice::price() const {
  return per_sample(*this, machine.accelerator ? machine.accelerator->price_per_hour : 0);
}
Interval LayoutChoice::kwh() const {
  return per_sample(*this, machine.accelerator ? machine.accelerator->power_w / 1000 : 0);
}

RunSpec searched(RunSpec spec, int64_t gpus) {
  spec.layout = {.dp = gpus};
  spec.policy.micro_batch = 0;
  return spec;
}

Chooser::Chooser(const RunSpec& spec, const Machine& machine, const EngineQuestion& engine,
                 const PredictOptions& options)
    : machine_(machine), options_(options) {
  if (engine.engine != "isobar") engine_ = std::make_unique<EngineOn>(spec, machine_, engine);
}
Chooser::~Chooser() = default;

LayoutChoice Chooser::own(const RunSpec& given) const {
  if (engine_) return choice_of(engine_->own(given), *engine_, machine_);
  const RunSpec spec = choose_micro_batch(given, machine_, options_).spec;
  return choice_of(spec, predict(spec, machine_, options_), machine_, options_);
}

std::vector<LayoutChoice> Chooser::best(const RunSpec& given, int64_t gpus, const LayoutQuestion& q) const {
  const RunSpec spec = searched(given, gpus);
  std::vector<LayoutChoice> out;
  if (engine_) {
    SearchResult found;
    for (const EngineLayout& one : engine_->best(spec, q, found)) {
      out.push_back(choice_of(one, *engine_, machine_));
      if (out.size() == q.top) break;
    }
    return out;
  }
  const bool confirm = q.top <= kPlaced;
  const SearchResult r = search(spec, machine_, {.top = q.top, .confirm = confirm, .space = space_of(q)});
  LayoutModel model(spec, machine_);
  for (const LayoutCandidate& c : r.best) {
    if (out.size() == q.top) break;
    Prediction p = predict_layout(model, c.layout);
    const RunSpec one = with_layout(spec, c.layout);
    if (c.arena > 0)
      p.memory_total = std::llround(static_cast<double>(c.arena) + c.cost.process + c.cost.nccl);
    out.push_back(choice_of(one, p, machine_, options_));
  }
  return out;
}

}  // namespace isobar
