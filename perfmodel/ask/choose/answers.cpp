#include "perfmodel/ask/choose/answers.h"

#include <algorithm>

#include "perfmodel/ask/layout_predict.h"

namespace isobar {
namespace {

constexpr size_t kVariants = 24;  // of a search's layouts, among which ties are looked for
constexpr size_t kTelling = 2;    // runs that are named

std::vector<MemoryRung> ladder_of(const RunSpec& spec, const Prediction& p, const PredictOptions& options) {
  if (p.device == Device::cores)
    return memory_ladder(spec, options.workspace ? options.workspace(p.where.threads) : Workspace{});
  return memory_ladder(spec, options.device_workspace ? options.device_workspace() : Workspace{});
}

}  // namespace

RunAnswer answer_run(const RunSpec& given, const Machine& m, const LayoutQuestion& q,
                     const PredictOptions& options) {
  RunAnswer a;
  a.micro_batch = choose_micro_batch(given, m, options);
  const RunSpec& spec = a.micro_batch.spec;
  a.prediction = predict(spec, m, options);
  if (!a.prediction.fits()) {
    a.change = smallest_change(spec, m, options);
    a.ladder = ladder_of(spec, a.prediction, options);
  }
  if (has_training(q)) a.training = training_of(choice_of(spec, a.prediction, m, options), q);
  return a;
}

SearchAnswer answer_search(const RunSpec& given, const Machine& m, int64_t gpus, const LayoutQuestion& q,
                           const PredictOptions& options) {
  const RunSpec spec = searched(given, gpus);
  SearchAnswer a;
  a.found = search(spec, m, {.top = q.top, .variants = kVariants, .pareto = q.pareto, .space = space_of(q)});
  const Layout& best = a.found.best.front().layout;
  LayoutModel model(spec, m);
  a.prediction = predict_layout(model, best);
  a.spec = with_layout(spec, best);
  a.turns = turns(spec, m, a.found.best);
  a.ties = ties(model, a.found.variants, kTelling);
  if (q.offload) a.offloaded = offloaded(spec, m, space_of(q));
  if (has_training(q)) a.training = training_of(choice_of(a.spec, a.prediction, m, options), q);
  return a;
}

EngineRunAnswer answer_run(const RunSpec& spec, const Machine& m, const LayoutQuestion& q,
                           const EngineOn& on) {
  EngineRunAnswer a;
  a.layout = on.own(spec);
  if (a.layout.answer.memory.value > on.memory()) a.change = on.smallest_change(a.layout.spec);
  a.too_large = a.layout.answer.memory.lower > on.memory();
  if (has_training(q)) a.training = training_of(choice_of(a.layout, on, m), q);
  return a;
}

EngineSearchAnswer answer_search(const RunSpec& spec, const Machine& m, int64_t gpus, const LayoutQuestion& q,
                                 const EngineOn& on) {
  EngineSearchAnswer a;
  a.ranked = on.best(searched(spec, gpus), q, a.found);
  const auto last = a.ranked.begin() + static_cast<std::ptrdiff_t>(std::min(kVariants, a.ranked.size()));
  a.ties = on.ties({a.ranked.begin(), last});
  if (has_training(q)) a.training = training_of(choice_of(a.ranked[0], on, m), q);
  return a;
}

}  // namespace isobar
