#include "perfmodel/ask/choose/engine_on.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "model/base/error.h"
#include "model/base/text/printed.h"
#include "perfmodel/ask/fits.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/score/own_runs.h"
#include "perfmodel/score/published/published_spec.h"
#include "perfmodel/step/engine_prices.h"

namespace isobar::perf {
namespace {

constexpr size_t kRepriced = 4000;  // layouts of a search priced again, the fastest by our own engine
constexpr size_t kAxes = 200;       // (dp, tp, cp, pp, ep) among them: the search's bound leaves out the rest

SearchSpace space_of(const LayoutQuestion& q, const NetSpec& net, const ForeignEngine* e) {
  SearchSpace space = space_of(q);
  space.orders = false;
  space.workers = {};  // another engine's reading is part of its rate
  space.schedules = {PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved};
  const auto ulysses = static_cast<int64_t>(CpKind::ulysses);  // priced of our own engine alone
  space.keep.add({LayoutAxis::cp_kind, ulysses, ulysses, true, "no ulysses", true});
  if (e) keep_to(*e, space);
  if (is_asked_whole(net))
    for (const LayoutAxis axis : {LayoutAxis::cp, LayoutAxis::pp})
      if (!space.keep.only(axis))
        space.keep.add({axis, 1, 1, false, "other engines have no cp and pp of " + net.kind(), true});
  return space;
}

}  // namespace

struct EngineOn::Parts {
  const ForeignEngine* engine;  // nullptr: unknown
  EngineModel model;
  ChipSpec chip;
  const Machine& machine;
  std::string fit, why;
  std::shared_ptr<SectionCache> sections = nullptr;  // of the net, from one search to the next

  Parts(const Machine& m, const EngineQuestion& q)
      : engine(q.engine == "unknown" ? nullptr : &engine_named(q.engine)),
        model(EngineModel::shipped(engine, q.tuned)),
        chip(chip_of(m)),
        machine(m),
        fit(q.fit),
        why(q.why) {
    if (!fit.empty()) model.learn(runs_of(load_own_runs(fit, m), m, chip));
  }

  EngineAnswer answer(const RunSpec& spec) const {
    if (engine) refuse_axes(spec, *engine);
    return model.predict(run_of(spec, machine, chip, engine ? engine->habits : Habits{}));
  }
  EngineLayout layout(const RunSpec& spec) const {
    const EngineAnswer a = answer(spec);
    return {spec, a, chance_to_fit(a.memory.value, a.memory.lower, a.memory.upper, chip.memory_bytes)};
  }
};

EngineOn::EngineOn(const RunSpec& spec, const Machine& machine, const EngineQuestion& q) {
  if (device_of(spec, machine) != Device::accelerator)
    throw ConfigError(machine.file, "--engine", "prices runs on accelerators",
                      "name a machine like configs/machines/dgx-h100.yaml");
  parts_ = std::make_unique<Parts>(machine, q);
}
EngineOn::~EngineOn() = default;

std::string EngineOn::name() const {
  return parts_->engine ? parts_->engine->name : "unknown";
}
double EngineOn::tuned() const {
  return parts_->model.tuned().mean;
}
size_t EngineOn::own_runs() const {
  return parts_->model.own_runs().size();
}
double EngineOn::memory() const {
  return parts_->chip.memory_bytes;
}

std::string EngineOn::origin() const {
  const auto& [engine, model, chip, machine, fit, why, sections] = *parts_;
  std::string text = "for " + name() + ": ";
  text += engine ? printed("coefficients fitted to %zu published runs of it and %zu of other engines (%s)",
                           model.own_rows(), model.other_rows(), engine->file.c_str())
                 : printed("coefficients fitted to %zu published runs of all engines", model.other_rows());
  text += printed(", tuned %.2g", model.tuned().mean);
  if (model.tuned().sigma > 0) text += printed(" +- %.2g", model.tuned().sigma);
  text += " (0: research code, 1: MLPerf submission)\n";
  if (!fit.empty()) text += printed("and to %zu of your own runs (%s)\n", own_runs(), fit.c_str());
  if (!why.empty()) text += why + "\n";
  return text;
}

EngineLayout EngineOn::own(RunSpec spec) const {
  if (spec.policy.micro_batch == 0) {
    const int64_t samples = spec.train.global_batch / spec.layout.dp;
    for (int64_t m = samples; m >= 1; --m) {
      if (samples % m != 0) continue;
      spec.policy.micro_batch = m;
      if (m == 1 || parts_->answer(spec).memory.value <= memory()) break;
    }
  }
  return parts_->layout(spec);
}

std::optional<EngineOn::Change> EngineOn::smallest_change(const RunSpec& given) const {
  constexpr int64_t kMostTimes = 4096;
  std::optional<Change> best;
  const auto consider = [&](RunSpec one, const std::string& key, const std::string& value) {
    try {
      validate(one);
      const EngineLayout l = parts_->layout(one);
      if (l.answer.memory.value > memory()) return;
      if (!best || l.answer.step.value < best->layout.answer.step.value) best = {{key + "=" + value}, l};
    } catch (const ConfigError&) {  // the engine or the net lacks it
    }
  };
  for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
    RunSpec one = given;
    one.policy.set_recompute(recompute);
    if (given.policy.recompute != Recompute::full) consider(one, "policy.recompute", name_of(recompute));
  }
  for (int64_t b = given.micro_batch() / 2; b >= 1; b /= 2) {
    RunSpec one = given;
    one.policy.micro_batch = b;
    if (given.train.global_batch % (given.layout.dp * b) == 0)
      consider(one, "policy.micro_batch", std::to_string(b));
  }
  for (int64_t zero = given.policy.zero + 1; zero <= 3; ++zero) {
    RunSpec one = given;
    one.policy.zero = zero;
    consider(one, "policy.zero", std::to_string(zero));
  }
  for (int64_t times = 2; times <= kMostTimes && !best; times *= 2)
    for (int64_t LayoutSpec::*axis : {&LayoutSpec::dp, &LayoutSpec::tp, &LayoutSpec::pp}) {
      RunSpec one = given;
      one.layout.*axis *= times;
      if (one.train.global_batch % (one.layout.dp * one.micro_batch()) != 0) continue;
      const char* name = axis == &LayoutSpec::dp ? "dp" : axis == &LayoutSpec::tp ? "tp" : "pp";
      consider(one, std::string("layout.") + name, std::to_string(one.layout.*axis));
    }
  return best;
}

Ties EngineOn::ties(const std::vector<EngineLayout>& layouts) const {
  std::vector<PublishedRun> runs;
  for (const EngineLayout& l : layouts)
    runs.push_back(
        run_of(l.spec, parts_->machine, parts_->chip, parts_->engine ? parts_->engine->habits : Habits{}));
  const EngineModel::Fastest f = parts_->model.fastest(runs);
  Ties t = likeliest(f.chances, f.loss);
  for (size_t i = 0; i < std::min<size_t>(2, t.members.size()); ++i) t.telling.push_back(t.members[i].index);
  return t;
}

std::vector<EngineLayout> EngineOn::best(const RunSpec& spec, const LayoutQuestion& q,
                                         SearchResult& found) const {
  const SearchSpace space = space_of(q, spec.net, parts_->engine);
  std::shared_ptr<SectionCache>& sections = parts_->sections;
  if (!sections) sections = LayoutModel(spec, parts_->machine).sections();
  found = search(spec, parts_->machine,
                 {.top = kAxes,
                  .variants = kRepriced,
                  .confirm = false,
                  .space = space,
                  .sections = sections,
                  .progress = q.progress});
  // The policy that this engine runs fastest, of each (dp, tp, cp, pp, ep)
  std::map<std::array<int32_t, 5>, EngineLayout> best;
  double least = std::numeric_limits<double>::infinity();
  for (const LayoutCandidate& c : found.variants) {
    EngineLayout l = parts_->layout(with_layout(spec, c.layout));
    least = std::min(least, l.answer.memory.value);
    if (l.answer.memory.value > memory()) continue;
    const auto [at, fresh] =
        best.try_emplace({c.layout.dp, c.layout.tp, c.layout.cp, c.layout.pp, c.layout.ep}, l);
    if (!fresh && l.score() < at->second.score()) at->second = std::move(l);
  }
  std::vector<EngineLayout> ranked;
  for (auto& [axes, l] : best) ranked.push_back(std::move(l));
  if (ranked.empty())
    throw DoesNotFit(spec.file, "--gpus",
                     "of " + std::to_string(found.variants.size()) + " layouts on " +
                         std::to_string(spec.layout.world()) + " none fits with " + name() +
                         "; the smallest needs " + gigabytes(least) + ", " + gigabytes(least - memory()) +
                         " too much",
                     "ask for more GPUs, or set policy.recompute=full");
  std::sort(ranked.begin(), ranked.end(),
            [](const EngineLayout& a, const EngineLayout& b) { return a.score() < b.score(); });
  return ranked;
}

}  // namespace isobar::perf
