#include "perfmodel/ask/choose/engine_on.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "model/base/error.h"
#include "model/base/spec/settings_of_others.h"
#include "model/base/text/printed.h"
#include "perfmodel/ask/fits.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/score/own_runs.h"
#include "perfmodel/score/published/published_spec.h"
#include "perfmodel/step/engine_prices.h"

namespace isobar::perf {
namespace {

constexpr size_t kRepriced = 4000;   // layouts of a search priced again, the fastest by our own engine
constexpr size_t kOffloading = 400;  // likewise, with activations in host memory
constexpr size_t kAxes = 200;  // (dp, tp, cp, pp, ep) among them: the search's bound leaves out the rest

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

/// Without pipelines and recomputation, beside which Megatron-Core offloads no activations
SearchSpace only_offloading(SearchSpace space) {
  space.keep.add({LayoutAxis::pp, 1, 1, false, "activations are offloaded without pp", true});
  std::erase_if(space.recompute, [](Recompute r) { return r != Recompute::none; });
  return space;
}

Machine with_room(Machine m) {
  constexpr int64_t kTimes = 8;  // as much memory as a layout has that offloads most of its layers
  m.accelerator->memory_bytes *= kTimes;
  m.accelerator->reported_bytes *= kTimes;
  return m;
}

/// nullptr: unknown
const ForeignEngine* engine_of(const RunSpec& spec, const Machine& machine, const std::string& name) {
  if (device_of(spec, machine) != Device::accelerator)
    throw ConfigError(machine.file, "--engine", "prices runs on accelerators",
                      "name a machine like configs/machines/dgx-h100.yaml");
  return name == "unknown" ? nullptr : &engine_named(name);
}

}  // namespace

EngineOn::EngineOn(const RunSpec& spec, const Machine& machine, const EngineQuestion& q)
    : engine_(engine_of(spec, machine, q.engine)),
      model_(EngineModel::shipped(engine_, q.tuned)),
      chip_(chip_of(machine)),
      machine_(machine),
      fit_(q.fit),
      why_(q.why) {
  if (!fit_.empty()) model_.learn(runs_of(load_own_runs(fit_, machine), machine, chip_));
}

EngineAnswer EngineOn::answer(const RunSpec& spec) const {
  if (engine_) refuse_axes(spec, *engine_);
  return model_.predict(run_of(spec, machine_, chip_, engine_ ? engine_->habits : Habits{}));
}

EngineLayout EngineOn::layout(const RunSpec& spec) const {
  const EngineAnswer a = answer(spec);
  return {spec, a, chance_to_fit(a.memory.value, a.memory.lower, a.memory.upper, chip_.memory_bytes)};
}

std::optional<EngineLayout> EngineOn::offloaded(RunSpec spec) const {
  const auto with = [&](int64_t layers) {
    spec.policy.offloaded_layers = static_cast<double>(layers);
    return layout(spec);
  };
  if (EngineLayout whole = with(0); fits(whole)) return whole;
  int64_t none = 0, enough = spec.net.blocks();
  EngineLayout best = with(enough);
  if (!fits(best)) return {};
  while (enough - none > 1) {
    const int64_t half = (none + enough) / 2;
    if (EngineLayout l = with(half); fits(l))
      best = std::move(l), enough = half;
    else
      none = half;
  }
  return best;
}

SearchResult EngineOn::searched(const RunSpec& spec, const Machine& on, SearchSpace space, size_t variants,
                                bool progress) const {
  const RunSpec own = without_settings_of_others(spec);
  if (!sections_) sections_ = LayoutModel(own, machine_).sections();
  return search(own, on,
                {.top = kAxes,
                 .variants = variants,
                 .confirm = false,
                 .space = std::move(space),
                 .sections = sections_,
                 .progress = progress});
}

std::vector<EngineLayout> EngineOn::offloading(const RunSpec& spec, const SearchSpace& space,
                                               int64_t& considered) const {
  std::vector<EngineLayout> out;
  if (!engine_ || !engine_->axes.offload || spec.policy.offloaded_layers > 0) return out;
  SearchResult found;
  try {
    found = searched(spec, with_room(machine_), only_offloading(space), kOffloading, false);
  } catch (const ConfigError&) {  // none without pp and recomputation
  }
  considered += found.considered;
  for (const LayoutCandidate& c : found.variants)
    if (auto l = offloaded(with_layout(spec, c.layout))) out.push_back(std::move(*l));
  return out;
}

std::string EngineOn::origin() const {
  std::string text = "for " + name() + ": ";
  text += engine_ ? printed("coefficients fitted to %zu published runs of it and %zu of other engines (%s)",
                            model_.own_rows(), model_.other_rows(), engine_->file.c_str())
                  : printed("coefficients fitted to %zu published runs of all engines", model_.other_rows());
  text += printed(", tuned %.2g", model_.tuned().mean);
  if (model_.tuned().sigma > 0) text += printed(" +- %.2g", model_.tuned().sigma);
  text += " (0: research code, 1: MLPerf submission)\n";
  if (!fit_.empty()) text += printed("and to %zu of your own runs (%s)\n", own_runs(), fit_.c_str());
  if (!why_.empty()) text += why_ + "\n";
  return text;
}

EngineLayout EngineOn::own(RunSpec spec) const {
  if (spec.policy.micro_batch == 0) {
    const int64_t samples = spec.train.global_batch / spec.layout.dp;
    for (int64_t m = samples; m >= 1; --m) {
      if (samples % m != 0) continue;
      spec.policy.micro_batch = m;
      if (m == 1 || answer(spec).memory.value <= chip_.memory_bytes) break;
    }
  }
  return layout(spec);
}

std::optional<EngineOn::Change> EngineOn::smallest_change(const RunSpec& given) const {
  constexpr int64_t kMostTimes = 4096;
  std::optional<Change> best;
  const auto consider = [&](RunSpec one, const std::string& key, const std::string& value) {
    try {
      validate(one);
      const EngineLayout l = layout(one);
      if (l.answer.memory.value > chip_.memory_bytes) return;
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
  const bool offloads = engine_ && engine_->axes.offload;
  if (offloads && given.layout.pp == 1 && given.policy.recompute == Recompute::none)
    if (const auto l = offloaded(given))
      consider(l->spec, "policy.offloaded_layers", printed("%g", l->spec.policy.offloaded_layers));
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
    runs.push_back(run_of(l.spec, machine_, chip_, engine_ ? engine_->habits : Habits{}));
  const EngineModel::Fastest f = model_.fastest(runs);
  Ties t = likeliest(f.chances, f.loss);
  for (size_t i = 0; i < std::min<size_t>(2, t.members.size()); ++i) t.telling.push_back(t.members[i].index);
  return t;
}

std::vector<EngineLayout> EngineOn::best(const RunSpec& spec, const LayoutQuestion& q,
                                         SearchResult& found) const {
  const SearchSpace space = space_of(q, spec.net, engine_);
  std::optional<DoesNotFit> nothing;  // without offloading
  try {
    found = searched(spec, machine_, space, kRepriced, q.progress);
  } catch (const DoesNotFit& e) {
    nothing = e;
  }
  // The policy that this engine runs fastest, of each (dp, tp, cp, pp, ep)
  std::map<std::array<int64_t, 5>, EngineLayout> best;
  const auto consider = [&](EngineLayout l) {
    const LayoutSpec& at = l.spec.layout;
    const auto [known, fresh] = best.try_emplace({at.dp, at.tp, at.cp, at.pp, at.ep}, l);
    if (!fresh && l.score() < known->second.score()) known->second = std::move(l);
  };
  double least = std::numeric_limits<double>::infinity();
  for (const LayoutCandidate& c : found.variants) {
    EngineLayout l = layout(with_layout(spec, c.layout));
    least = std::min(least, l.answer.memory.value);
    if (fits(l)) consider(std::move(l));
  }
  for (EngineLayout& l : offloading(spec, space, found.considered)) consider(std::move(l));
  if (best.empty() && nothing) throw DoesNotFit(*nothing);
  std::vector<EngineLayout> ranked;
  for (auto& [axes, l] : best) ranked.push_back(std::move(l));
  if (ranked.empty())
    throw DoesNotFit(spec.file, "--gpus",
                     "of " + std::to_string(found.variants.size()) + " layouts on " +
                         std::to_string(spec.layout.world()) + " none fits with " + name() +
                         "; the smallest needs " + gigabytes(least) + ", " +
                         gigabytes(least - chip_.memory_bytes) + " too much",
                     "ask for more GPUs, or set policy.recompute=full");
  std::sort(ranked.begin(), ranked.end(),
            [](const EngineLayout& a, const EngineLayout& b) { return a.score() < b.score(); });
  return ranked;
}

}  // namespace isobar::perf
