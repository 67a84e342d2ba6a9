#include "perfmodel/ask/choose/answers.h"

#include <algorithm>

#include "perfmodel/ask/layout_predict.h"

namespace isobar::perf {
namespace {

constexpr size_t kVariants = 24;  // of a search's layouts, among which ties are looked for
constexpr size_t kTelling = 2;    // runs that are named

std::vector<nets::MemoryRung> ladder_of(const RunSpec& spec, const Prediction& p,
                                        const PredictOptions& options) {
  if (p.device == Device::cores)
    return nets::memory_ladder(spec,
                               options.workspace ? options.workspace(p.where.threads) : plan::Workspace{});
  return nets::memory_ladder(spec, options.device_workspace ? options.device_workspace() : plan::Workspace{});
}

// Gains of the run's own layout: more memory changes nothing.
Lifted lifted(LayoutModel& model, const RunSpec& spec) {
  const Layout l = layout_of(spec);
  const double now = model.time(l).seconds;
  model.set_batch(2 * spec.train.global_batch);
  const double twice = model.time(l).seconds;
  model.set_batch(spec.train.global_batch);
  return {.batch = 2 * now / twice - 1};
}

bool same_axes(const Layout& a, const Layout& b) {
  return a.dp == b.dp && a.tp == b.tp && a.cp == b.cp && a.pp == b.pp && a.ep == b.ep;
}

std::vector<LayoutRow> rows_of(LayoutModel& model, const SearchResult& found, const Ties& ties,
                               const LayoutQuestion& q) {
  const std::vector<LayoutCandidate>& list = q.all ? found.variants : found.best;
  std::vector<LayoutRow> rows;
  for (size_t i = 0; i < list.size() && (q.all || i < q.top); ++i) {
    const Prediction p = predict_layout(model, list[i].layout);
    LayoutRow row{list[i], {p.step_s, p.lower, p.upper}};
    if (q.all) row.fastest = ties.chances[i];
    for (size_t k = 0; !q.all && k < found.variants.size(); ++k)
      if (same_axes(found.variants[k].layout, list[i].layout)) row.fastest += ties.chances[k];
    rows.push_back(std::move(row));
  }
  return rows;
}

Offloaded searched_with(const RunSpec& spec, const Machine& machine, const SearchSpace& space,
                        std::string what, std::string set) {
  Offloaded out{std::move(what), std::move(set), {}, {}};
  try {
    out.best = search(spec, machine, {.top = 1, .space = space}).best.front();
  } catch (const ConfigError& e) {  // a fixed key forbids it, or it does not fit either
    out.why = e.what();
  }
  return out;
}

/// The best of each offload that `spec` does not use already. Its layout gives the number of accelerators.
std::vector<Offloaded> offloaded(const RunSpec& spec, const Machine& machine, const SearchSpace& space) {
  std::vector<Offloaded> out;
  RunSpec one = spec;
  one.policy.offload_optimizer = true;
  if (!spec.policy.offload_optimizer)
    out.push_back(searched_with(one, machine, space, "moments", "policy.offload_optimizer=true"));
  if (spec.policy.offload_parameters) return out;
  SearchSpace sharded = space;
  sharded.zero = {3};
  one.policy.zero = 3;
  one.policy.offload_parameters = true;
  out.push_back(searched_with(one, machine, sharded, "moments and parameters",
                              "policy.offload_optimizer=true --set policy.offload_parameters=true"));
  return out;
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
  a.limit = limit_of(model, spec, lifted(model, spec));
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
                                 .progress = q.progress,
                                 .lifts = true});
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
  a.turns = turns(model, a.found.best);
  a.ties = ties(model, a.found.variants, kTelling);
  a.rows = rows_of(model, a.found, a.ties, q);
  a.limit = limit_of(model, a.spec, a.found.lifted);
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

}  // namespace isobar::perf
