#include "perfmodel/ask/choose/engine_on.h"

#include <algorithm>

#include "model/base/error.h"
#include "model/base/printed.h"
#include "perfmodel/ask/fits.h"
#include "perfmodel/score/own_runs.h"
#include "perfmodel/score/published_spec.h"

namespace isobar {
namespace {

constexpr size_t kReranked = 200;  // layouts of a search priced again, each with another (dp, tp, cp, ep, pp)

void refuse_axes(const RunSpec& s, const ForeignEngine& e) {
  const auto lacks = [&](const char* key, int64_t value, bool has) {
    if (value > 1 && !has)
      throw ConfigError(s.file, key, e.name + " has no such axis (" + e.file + ")", "use 1");
  };
  lacks("layout.dp", s.layout.dp, e.axes.dp);
  lacks("layout.tp", s.layout.tp, e.axes.tp);
  lacks("layout.cp", s.layout.cp, e.axes.cp);
  lacks("layout.pp", s.layout.pp, e.axes.pp);
  lacks("layout.vpp", s.layout.vpp, e.axes.vpp);
  lacks("layout.ep", s.layout.ep, e.axes.ep);
  if (std::find(e.axes.zero.begin(), e.axes.zero.end(), s.policy.zero) == e.axes.zero.end())
    throw ConfigError(s.file, "policy.zero",
                      e.name + " has no ZeRO stage " + std::to_string(s.policy.zero) + " (" + e.file + ")",
                      "use " + std::to_string(e.axes.zero.front()));
}

/// The search's space, as far as the engine supports it.
SearchSpace space_of(const LayoutQuestion& q, const ForeignEngine* e) {
  SearchSpace space = space_of(q);
  space.orders = false;
  space.schedules = {PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved};
  if (!e) return space;
  std::erase_if(space.zero, [&](int z) {
    return std::find(e->axes.zero.begin(), e->axes.zero.end(), z) == e->axes.zero.end();
  });
  const auto only_one = [&](bool has, LayoutAxis axis, const char* name) {
    if (has || q.keep.only(axis)) return;  // the engine's file refuses fixed axes itself (refuse_axes)
    space.keep.add({axis, 1, 1, false, e->name + " has no " + name});
  };
  only_one(e->axes.dp, LayoutAxis::dp, "dp");
  only_one(e->axes.tp, LayoutAxis::tp, "tp");
  only_one(e->axes.cp, LayoutAxis::cp, "cp");
  only_one(e->axes.pp, LayoutAxis::pp, "pp");
  only_one(e->axes.ep, LayoutAxis::ep, "ep");
  if (!e->axes.vpp) space.schedules = {PipelineSchedule::one_f_one_b};
  return space;
}

}  // namespace

struct EngineOn::Parts {
  const ForeignEngine* engine;  // nullptr: unknown
  EngineModel model;
  ChipSpec chip;
  const Machine& machine;
  std::string fit;

  Parts(const Machine& m, const EngineQuestion& q)
      : engine(q.engine == "unknown" ? nullptr : &engine_named(q.engine)),
        model(EngineModel::shipped(engine, q.tuned)),
        chip(chip_of(m)),
        machine(m),
        fit(q.fit) {
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
  const auto& [engine, model, chip, machine, fit] = *parts_;
  std::string text = "for " + name() + ": ";
  text += engine ? printed("coefficients fitted to %zu published runs of it and %zu of other engines (%s)",
                           model.own_rows(), model.other_rows(), engine->file.c_str())
                 : printed("coefficients fitted to %zu published runs of all engines", model.other_rows());
  text += printed(", tuned %.2g", model.tuned().mean);
  if (model.tuned().sigma > 0) text += printed(" +- %.2g", model.tuned().sigma);
  text += " (0: research code, 1: MLPerf submission)\n";
  if (!fit.empty()) text += printed("and to %zu of your own runs (%s)\n", own_runs(), fit.c_str());
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
    one.policy.recompute = recompute;
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
  const SearchSpace space = space_of(q, parts_->engine);
  found = search(spec, parts_->machine, {.top = kReranked, .confirm = false, .space = space});
  std::vector<EngineLayout> ranked;
  for (const LayoutCandidate& c : found.best) {
    RunSpec one = with_layout(spec, c.layout);
    if (one.layout.cp > 1 && one.policy.cp_kind == CpKind::ulysses) one.policy.cp_kind = CpKind::ring;
    EngineLayout l = parts_->layout(one);
    if (l.answer.memory.value <= memory()) ranked.push_back(std::move(l));
  }
  if (ranked.empty())
    throw DoesNotFit(spec.file, "--gpus",
                     "of " + std::to_string(found.best.size()) + " layouts on " +
                         std::to_string(spec.layout.world()) + " none fits with " + name(),
                     "ask for more GPUs, or set policy.recompute=full");
  std::sort(ranked.begin(), ranked.end(),
            [](const EngineLayout& a, const EngineLayout& b) { return a.score() < b.score(); });
  return ranked;
}

}  // namespace isobar
