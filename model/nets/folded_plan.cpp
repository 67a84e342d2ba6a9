#include "model/nets/folded_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "model/nets/adapter.h"
#include "model/nets/build.h"
#include "model/nets/legal_layout.h"
#include "model/nets/plan_size.h"

namespace isobar {
namespace {

constexpr int64_t kFewRounds = 4;  // rounds of a chunk before its growth is steady, …
constexpr size_t kPlans = 8;  // … and the number of plans that must confirm it: scratch placement depends on
                              // what lay there before, and repeats only after some rounds
                              // parts; longer periods are not searched
constexpr int64_t kMostRound = 1024;  // parts; longer rhythms are not looked for
constexpr int64_t kMostRoundsTogether = 16;

bool names_parts(const TrainSpec& t) {
  return !t.freeze.empty() || !t.lr_factors.empty() || !t.lora_targets.empty() ||
         std::any_of(t.no_decay.begin(), t.no_decay.end(),
                     [](const std::string& pattern) { return pattern != kVectors; });
}

FoldedPlan whole(const RunSpec& spec, int rank, const Workspace& workspace) {
  FoldedPlan f{.spec = spec, .to_check = spec, .plan = build_plan(spec, rank, workspace)};
  f.memory = f.plan.memory;
  f.totals = totals(f.plan, spec.micro_batch());
  f.parameters = f.plan.parameter_count();
  f.forward_flops = forward_flops_per_sample(spec);
  return f;
}

// ---- the period ----

int32_t part_at(const Plan& plan, int64_t flat) {
  const auto after = std::upper_bound(plan.params.begin(), plan.params.end(), flat,
                                      [](int64_t offset, const Param& p) { return offset < p.offset; });
  return after == plan.params.begin() ? -1 : std::prev(after)->part;
}

// The period, in parts, after which parameter units (buckets) begin at the same place of a part: the least
// common multiple over sections. 0: the plan has too few units to find it. Units of a section follow the
// order of their parts.
int64_t parts_of_units(const RunSpec& spec, const Plan& plan) {
  const double bucket = spec.policy.bucket_mb * 1e6 / static_cast<double>(size_of(DType::f32));
  int64_t round = 1;
  for (size_t i = 0; i < plan.shards.size();) {
    size_t end = i + 1;
    std::map<int64_t, int> steps;  // distance in parts -> count
    while (end < plan.shards.size()) {
      const int64_t step = part_at(plan, plan.shards[end].begin) - part_at(plan, plan.shards[end - 1].begin);
      if (step < 0) break;
      if (step > 0) ++steps[step];
      ++end;
    }
    const bool never_cut = end - i == 1 && static_cast<double>(plan.shards[i].count) > 2 * bucket;
    if (!never_cut) {
      if (end - i < static_cast<size_t>(kFewRounds) || steps.empty()) return 0;
      const auto usual = std::max_element(steps.begin(), steps.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
      round = std::lcm(round, usual->first);
    }
    i = end;
  }
  return round;
}

int64_t first_round(const RunSpec& spec, int rank, const Workspace& workspace, int64_t most) {
  const int64_t chunks = spec.layout.pp * spec.layout.vpp;
  const int64_t together =
      spec.policy.recompute == Recompute::full && spec.policy.recompute_method == RecomputeMethod::uniform
          ? spec.policy.recompute_num_layers
          : 1;
  if (spec.layout.world() == spec.layout.pp && !spec.policy.offload_optimizer &&
      !spec.policy.offload_parameters)
    return together;  // no communication by buckets
  for (int64_t parts = 2 * kFewRounds; parts <= most; parts *= 2)
    if (const int64_t round =
            parts_of_units(spec, build_plan(with_equal_parts(spec, parts * chunks), rank, workspace)))
      return std::lcm(round, together);
  return 0;
}

// ---- linear growth ----

std::vector<int64_t*> counts_in(FoldedPlan& f) {
  Memory& m = f.memory;
  std::vector<int64_t*> all = {&m.arena, &m.host, &m.loader, &m.replay, &f.totals.ops, &f.parameters};
  for (int64_t& bytes : m.by_kind) all.push_back(&bytes);
  return all;
}

std::vector<double*> work_in(FoldedPlan& f) {
  Work& w = f.totals.step;
  return {&w.flops,      &w.vector_flops, &w.bytes_read,    &w.bytes_written,
          &w.wire_bytes, &w.messages,     &f.forward_flops, &f.totals.forward_flops};
}

// Extrapolates the first plan's numbers by `rounds` steps; the plans are one round apart. Returns false if
// growth is not constant, up to rounding for doubles.
template <class T>
bool grow(std::vector<FoldedPlan>& plans, int64_t rounds, std::vector<T*> (*numbers_in)(FoldedPlan&)) {
  std::vector<std::vector<T*>> of;  // by plan
  for (FoldedPlan& f : plans) of.push_back(numbers_in(f));
  for (size_t n = 0; n < of[0].size(); ++n) {
    const T step = *of[1][n] - *of[0][n];
    for (size_t i = 2; i < of.size(); ++i) {
      const T off = *of[i][n] - *of[i - 1][n] - step;
      if (std::is_integral_v<T> ? off != 0 : std::abs(off) > T(1e-9) * std::abs(*of[i][n])) return false;
    }
    *of[0][n] += step * static_cast<T>(rounds);
  }
  return true;
}

// True if each routine of the longer plan is the shorter one's with ops inserted.
bool longer_of_the_same(const Plan& shorter, const Plan& longer) {
  if (shorter.routines.size() != longer.routines.size()) return false;
  for (size_t r = 0; r < shorter.routines.size(); ++r) {
    const Routine &a = shorter.routines[r], &b = longer.routines[r];
    // Other routines have ops on all parameters or gradients, whose size grows.
    const bool sized = a.pass == Pass::forward || a.pass == Pass::backward;
    const auto same = [&](const Op& x, const Op& y) {
      return x.kind == y.kind && x.lane == y.lane && (!sized || shape_text(x) == shape_text(y));
    };
    int32_t found = 0;
    for (int32_t i = 0; i < b.count && found < a.count; ++i)
      found += same(shorter.ops[a.first + found], longer.ops[b.first + i]) ? 1 : 0;
    if (a.name != b.name || found < a.count) return false;
  }
  return true;
}

// Parts of a chunk that show all its behaviour: the first ones may be recomputed, later ones not.
int64_t few_parts(const PolicySpec& p) {
  return kFewRounds + (p.recompute == Recompute::full ? p.recompute_num_layers : 0);
}

std::optional<FoldedPlan> folded(const RunSpec& spec, int rank, const Workspace& workspace, int64_t round) {
  const PolicySpec& p = spec.policy;
  const int64_t chunks = spec.layout.pp * spec.layout.vpp, depth = equal_parts(spec.net);
  const int64_t few = few_parts(p) + kFewRounds * round;
  const int64_t rounds = (depth / chunks - few) / round;
  if (rounds <= static_cast<int64_t>(kPlans)) return std::nullopt;
  std::vector<FoldedPlan> plans;
  for (int64_t lacking = rounds; plans.size() < kPlans; --lacking) {
    // Each chunk lacks the same number, so that the remainder in cuts_of stays the same.
    plans.push_back(whole(with_equal_parts(spec, depth - lacking * round * chunks), rank, workspace));
    if (plans.size() == 1) continue;
    Plan& before = plans.rbegin()[1].plan;
    if (!longer_of_the_same(before, plans.back().plan)) return std::nullopt;
    if (plans.size() > 2) before = {};  // only its numbers are still needed
  }
  if (!grow(plans, rounds, counts_in) || !grow(plans, rounds, work_in)) return std::nullopt;
  plans[0].round = round;
  plans[0].rounds = rounds;
  plans[0].to_check = with_equal_parts(spec, chunks * few_parts(p) + depth % chunks);
  return std::move(plans[0]);
}

}  // namespace

bool is_deep(const RunSpec& spec, int64_t most_whole) {
  return equal_parts(spec.net) / (spec.layout.pp * spec.layout.vpp) > most_whole &&
         !names_parts(spec.train) && few_parts(spec.policy) <= kMostRound;
}

FoldedPlan fold_plan(const RunSpec& spec, int rank, const Workspace& workspace, int64_t most_whole) {
  validate(spec);
  check_layout(spec);
  if (is_deep(spec, most_whole)) {
    const int64_t parts = equal_parts(spec.net) / (spec.layout.pp * spec.layout.vpp);
    // Buffers are aligned, so several rounds may grow steadily where one does not.
    const int64_t first = first_round(spec, rank, workspace, std::min(parts, kMostRound));
    const int64_t most = std::min(kMostRound, kMostRoundsTogether * first);
    for (int64_t round = first; first > 0 && round <= most; round *= 2)
      if (std::optional<FoldedPlan> f = folded(spec, rank, workspace, round)) return *std::move(f);
  }
  return whole(spec, rank, workspace);
}

}  // namespace isobar
