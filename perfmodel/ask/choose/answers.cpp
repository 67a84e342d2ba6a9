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

// The run's own layout with a changed batch; what it does not decide, memory, changes nothing.
Again same_layout(const LayoutModel& now) {
  return [&now](const RunSpec& spec, const Machine& m) -> std::optional<double> {
    LayoutModel model(spec, m, {.ranks_on_host = now.where().ranks_on_host}, now.sections());
    return model.time(layout_of(spec)).seconds / static_cast<double>(spec.train.global_batch);
  };
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
  LayoutModel model(spec, m, options.host);
  a.limit = limit_of(model, spec, same_layout(model));
  return a;
}

SearchAnswer answer_search(const RunSpec& given, const Machine& m, int64_t gpus, const LayoutQuestion& q,
                           const PredictOptions& options) {
  RunSpec spec = searched(given, gpus);
  const std::shared_ptr<SectionCache> sections = LayoutModel(spec, m).sections();
  SearchAnswer a;
  each_batch(spec, q, [&](const RunSpec& one) {
    SearchResult found = search(one, m,
                                {.top = q.top,
                                 .variants = kVariants,
                                 .pareto = q.pareto,
                                 .space = space_of(q),
                                 .sections = sections,
                                 .progress = q.progress});
    const auto score = [](const SearchResult& r, const RunSpec& s) {
      return r.best.front().score() / static_cast<double>(s.train.global_batch);
    };
    if (a.found.best.empty() || score(found, one) < score(a.found, spec))
      a.found = std::move(found), spec = one;
  });
  const Layout& best = a.found.best.front().layout;
  LayoutModel model(spec, m, {}, sections);
  a.prediction = predict_layout(model, best);
  a.spec = with_layout(spec, best);
  a.turns = turns(spec, m, a.found.best);
  a.ties = ties(model, a.found.variants, kTelling);
  a.limit = limit_of(model, a.spec, searched_again(space_of(q), sections));
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
  each_batch(searched(spec, gpus), q, [&](const RunSpec& one) {
    SearchResult found;
    std::vector<EngineLayout> ranked = on.best(one, q, found);
    const auto score = [](const EngineLayout& l) {
      return l.score() / static_cast<double>(l.spec.train.global_batch);
    };
    if (a.ranked.empty() || score(ranked[0]) < score(a.ranked[0]))
      a.ranked = std::move(ranked), a.found = std::move(found);
  });
  const auto last = a.ranked.begin() + static_cast<std::ptrdiff_t>(std::min(kVariants, a.ranked.size()));
  a.ties = on.ties({a.ranked.begin(), last});
  const RunSpec& best = a.ranked[0].spec;
  a.limit = limit_on(on, best, a.ranked[0].score() / static_cast<double>(best.train.global_batch), q);
  if (has_training(q)) a.training = training_of(choice_of(a.ranked[0], on, m), q);
  return a;
}

}  // namespace isobar
