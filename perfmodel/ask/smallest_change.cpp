#include "perfmodel/ask/smallest_change.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/nets/build.h"
#include "model/nets/layout/legal_layout.h"
#include "perfmodel/layouts/layout_model.h"

namespace isobar::perf {
namespace {

constexpr int kMostKeys = 3, kBesideRanks = 2;
constexpr int64_t kMostRanks = 4096;  // most ranks, relative to the given ones
constexpr int64_t kMostCut = 64;      // most ways to cut a layer

using Edit = std::function<void(RunSpec&)>;
using Edits = std::vector<Edit>;  // of one key

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> out;
  for (int64_t d = 1; d * d <= n; ++d)
    if (n % d == 0) {
      out.push_back(d);
      if (d * d != n) out.push_back(n / d);
    }
  return out;
}

// Every key with the values that may need less memory.
std::vector<Edits> edits_of(const RunSpec& s) {
  std::vector<Edits> keys;
  const auto key = [&] { return &keys.emplace_back(); };
  Edits* recompute = key();
  for (const Recompute kind : {Recompute::selective, Recompute::full})
    if (s.policy.recompute != kind && s.policy.recompute != Recompute::full)
      recompute->push_back([kind](RunSpec& x) { x.policy.recompute = kind; });
  Edits* micro = key();
  for (const int64_t b : divisors(s.train.global_batch / s.layout.dp))
    if (b < s.micro_batch()) micro->push_back([b](RunSpec& x) { x.policy.micro_batch = b; });
  Edits* zero = key();
  for (int64_t stage = s.policy.zero + 1; stage <= 3; ++stage)
    zero->push_back(
        [stage](RunSpec& x) { x.policy.zero = stage, x.policy.offload_parameters &= stage == 3; });
  if (!s.policy.offload_optimizer) key()->push_back([](RunSpec& x) { x.policy.offload_optimizer = true; });
  if (!s.policy.sequence_parallel) key()->push_back([](RunSpec& x) { x.policy.sequence_parallel = true; });
  if (s.policy.schedule != PipelineSchedule::one_f_one_b)
    key()->push_back([](RunSpec& x) { x.policy.schedule = PipelineSchedule::one_f_one_b, x.layout.vpp = 1; });
  const nets::NetLimits limits = nets::limits_of(s);
  for (int64_t LayoutSpec::*axis : {&LayoutSpec::tp, &LayoutSpec::cp, &LayoutSpec::pp, &LayoutSpec::ep}) {
    Edits* values = key();
    const int64_t most = axis == &LayoutSpec::pp   ? std::max<int64_t>(1, limits.inner_parts)
                         : axis == &LayoutSpec::ep ? limits.experts
                                                   : kMostCut;
    for (const int64_t n : divisors(s.layout.world()))
      if (n != s.layout.*axis && n <= most) values->push_back([axis, n](RunSpec& x) { x.layout.*axis = n; });
  }
  return keys;
}

// Calls `take` for every combination of exactly `count` changed keys.
void each_way(const std::vector<Edits>& keys, size_t from, int count, const RunSpec& s,
              const std::function<void(const RunSpec&)>& take) {
  if (count == 0) return take(s);
  for (size_t k = from; k < keys.size(); ++k)
    for (const Edit& edit : keys[k]) {
      RunSpec x = s;
      edit(x);
      each_way(keys, k + 1, count - 1, x, take);
    }
}

struct Change {
  RunSpec spec;
  double seconds = 0;
};

class Neighbours {
 public:
  Neighbours(const RunSpec& spec, const Machine& machine, const PredictOptions& options)
      : spec_(spec), options_(options) {
    RunSpec offloaded = spec;
    offloaded.policy.offload_optimizer = true;
    for (const RunSpec& s : {spec, offloaded})
      models_.push_back(std::make_unique<LayoutModel>(s, machine, options.host));
  }

  // The fastest fitting run with `count` changed keys, by placed plans on cores.
  std::optional<SmallestChange> best(int count) {
    std::vector<Change> fitting;
    each_way(edits_of(spec_), 0, count, spec_, [&](const RunSpec& x) { consider(x, fitting); });
    std::stable_sort(fitting.begin(), fitting.end(),
                     [](const Change& a, const Change& b) { return a.seconds < b.seconds; });
    for (const Change& c : fitting) try {
        nets::build_plan(c.spec, 0, {});  // checks what the closed form ignores
        SmallestChange out{c.spec, {}, predict(c.spec, models_[0]->machine(), options_)};
        if (out.prediction.fits()) return out;
      } catch (const ConfigError&) {
      }
    return std::nullopt;
  }

 private:
  void consider(RunSpec x, std::vector<Change>& fitting) {
    const int64_t world = spec_.layout.world(), cut = x.layout.tp * x.layout.cp * x.layout.pp;
    if (world % cut != 0) return;
    x.layout.dp = world / cut;
    if (x.train.global_batch % x.layout.dp != 0) return;
    const int64_t samples = x.train.global_batch / x.layout.dp;
    if (x.policy.micro_batch > 0 && samples % x.policy.micro_batch != 0) return;
    if (x.policy.sequence_parallel && x.layout.tp == 1 && !spec_.policy.sequence_parallel) return;
    LayoutModel& model = *models_[x.policy.offload_optimizer ? 1 : 0];
    try {
      validate(x);
      nets::check_layout(x);
      const Layout l = layout_of(x);
      const LayoutCost c = model.cost(l);
      if (c.memory <= memory_of_rank(model.machine(), model.where().ranks_on_host))
        fitting.push_back({x, c.seconds});
    } catch (const ConfigError&) {  // the net cannot take it
    }
  }

  RunSpec spec_;
  PredictOptions options_;
  std::vector<std::unique_ptr<LayoutModel>> models_;  // with the moments on the device, and offloaded
};

std::vector<std::string> differences(const RunSpec& before, const RunSpec& after) {
  std::vector<std::string> out;
  const nlohmann::json a = to_json(before), b = to_json(after);
  for (const char* section : {"layout", "policy"})
    for (const auto& [key, value] : b[section].items())
      if (a[section][key] != value)
        out.push_back(std::string(section) + "." + key + "=" +
                      (value.is_string() ? value.get<std::string>() : value.dump()));
  return out;
}

}  // namespace

std::optional<SmallestChange> smallest_change(const RunSpec& spec, const Machine& machine,
                                              const PredictOptions& options) {
  for (int64_t times = 1; times <= kMostRanks; times *= 2) {
    RunSpec more = spec;
    more.layout.dp *= times;
    if (more.train.global_batch % more.layout.dp != 0) break;
    Neighbours near(more, machine, options);
    for (int count = times > 1 ? 0 : 1; count <= (times > 1 ? kBesideRanks : kMostKeys); ++count)
      if (auto found = near.best(count)) {
        found->set = differences(spec, found->spec);
        return found;
      }
  }
  return std::nullopt;
}

}  // namespace isobar::perf
