// Advice on layouts that do not fit, or do not exist: the nearest change after which one does.
#include <algorithm>
#include <atomic>
#include <limits>
#include <set>

#include "model/base/error.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/ask/search_state.h"

namespace isobar::perf {
namespace {

constexpr int64_t kMostTimes = 1024;  // most times as many accelerators, if none fits

std::string joined(const std::vector<std::string>& mends) {
  std::string out;
  for (const std::string& one : mends)
    if (!one.empty()) out += (out.empty() ? "" : ", or ") + one;
  return out.empty() ? "take another net" : out;
}

std::string first_few(const std::set<int64_t>& numbers) {
  constexpr size_t kShown = 3;
  std::string out;
  for (size_t i = 0; const int64_t n : numbers) {
    if (i == kShown) return out + " …";
    out += (i++ == 0 ? "" : ", ") + std::to_string(n);
  }
  return out;
}

}  // namespace

bool LayoutSearch::shareable(int64_t gpus, int64_t batch) const {
  bool any = false;
  each_axes(gpus, batch, [&](const Axes&) { any = true; });
  return any;
}

// The constraint whose removal leaves a layout, or one that fits, as advice.
std::string LayoutSearch::mend(bool that_fits) const {
  const auto helps = [&](const Constraints& keep) {
    LayoutSearch other = with(spec_, keep);
    return that_fits ? other.any_fits() : other.any_considered();
  };
  Constraints engines;
  size_t given = 0;
  for (size_t i = 0; i < keep_.all().size(); ++i) {
    if (keep_.all()[i].fixed) {
      engines.add(keep_.all()[i]);
      continue;
    }
    ++given;
    if (helps(keep_.without(i))) return "leave out " + keep_.all()[i].text;
  }
  if (given > 1 && helps(engines)) return "leave out several of them";
  return that_fits ? what_would_fit() : "";
}

LayoutSearch LayoutSearch::with(const RunSpec& spec, const Constraints& keep) const {
  SearchOptions fewer{.top = 1, .confirm = false, .space = space_, .sections = model_.sections()};
  fewer.space.keep = keep;
  return {spec, model_.machine(), fewer};
}

bool LayoutSearch::any_fits() {
  spread();
  std::atomic<bool> found = false;
  in_threads([&](LayoutSearch& s) {
    s.each_own([&](const Axes& a) {
      if (found) return;
      s.axes(a);
      if (!s.best_.empty()) found = true;
    });
  });
  return found;
}

bool LayoutSearch::any_considered() {
  counting_ = true;
  each_axes(spec_.layout.world(), [&](const Axes& a) {
    if (result_.considered == 0) axes(a);
  });
  return result_.considered > 0;
}

// Recomputation and sharding were tried: what remains is offloading moments, and more accelerators.
std::string LayoutSearch::what_would_fit() const {
  const auto fits = [&](const RunSpec& spec) { return with(spec, keep_).any_fits(); };
  std::string out;
  RunSpec offloaded = spec_;
  offloaded.policy.offload_optimizer = true;
  if (!spec_.policy.offload_optimizer && fits(offloaded)) out = "set policy.offload_optimizer=true";
  RunSpec more_offloaded = offloaded;
  more_offloaded.policy.zero = 3;
  more_offloaded.policy.offload_parameters = true;
  if (out.empty() && !spec_.policy.offload_parameters && fits(more_offloaded))
    out = "set policy.offload_parameters=true with policy.zero=3";
  RunSpec more = spec_;
  for (int64_t times = 2; times <= kMostTimes; times *= 2) {
    more.layout.dp = times * spec_.layout.world();
    if (fits(more))
      return out + (out.empty() ? "" : ", or ") + "give " + std::to_string(more.layout.dp) + " of them";
  }
  return out;
}

// Not even one layout was priced: the numbers are incompatible.
void LayoutSearch::refuse_numbers() const {
  const int64_t gpus = spec_.layout.world(), batch = spec_.train.global_batch;
  std::set<int64_t> dps;  // of layouts that only the batch forbids
  each_axes(gpus, 0, [&](const Axes& a) { dps.insert(a[0]); });
  const std::string given = keep_.text(), fewer = mend(false);
  const std::string number = std::to_string(gpus), under = given.empty() ? "" : " (" + given + ")";
  if (shareable(gpus, batch) || (dps.empty() && !fewer.empty()))
    throw ConfigError(spec_.file, "--gpus",
                      "no layout on " + number + " keeps to " + (given.empty() ? "the space" : given),
                      fewer.empty() ? "leave --space out" : fewer);
  if (!dps.empty())
    throw ConfigError(spec_.file, "--gpus",
                      number + " cannot be shared" + under + ": its layouts have a dp of " + first_few(dps) +
                          ", which does not divide the batch of " + std::to_string(batch) +
                          " (train.global_batch)",
                      joined({nearest_batches(dps), nearest_numbers(), fewer}));
  throw ConfigError(
      spec_.file, "--gpus",
      number + " cannot be shared: no dp * tp * cp * pp of it has " +
          (net_.tp.empty()
               ? "tp 1"
               : "a tp that divides " + net_.tp[0].name + " = " + std::to_string(net_.tp[0].value)) +
          " and a pp up to the parts between its ends, " + std::to_string(net_.inner_parts) + under,
      joined({nearest_numbers(), fewer}));
}

// The nearest batches, below and above, that a dp divides
std::string LayoutSearch::nearest_batches(const std::set<int64_t>& dps) const {
  const int64_t batch = spec_.train.global_batch;
  int64_t below = 0, above = std::numeric_limits<int64_t>::max();
  for (const int64_t dp : dps) {
    below = std::max(below, batch / dp * dp);
    above = std::min(above, (batch / dp + 1) * dp);
  }
  return "--global-batch " + (below > 0 ? std::to_string(below) + " or " : "") + std::to_string(above);
}

std::string LayoutSearch::nearest_numbers() const {
  constexpr int64_t kFar = 4096;
  const int64_t gpus = spec_.layout.world(), batch = spec_.train.global_batch;
  int64_t below = gpus - 1, above = gpus + 1;
  while (below > 0 && gpus - below < kFar && !shareable(below, batch)) --below;
  while (above - gpus < kFar && !shareable(above, batch)) ++above;
  std::string near;
  if (below > 0 && shareable(below, batch)) near = "--gpus " + std::to_string(below);
  if (shareable(above, batch)) near += (near.empty() ? "--gpus " : " or ") + std::to_string(above);
  return near;
}

void LayoutSearch::refuse_memory() const {
  const std::string without = mend(true);
  throw DoesNotFit(spec_.file, "--gpus",
                   "no layout on " + std::to_string(spec_.layout.world()) + " fits " + gigabytes(capacity_) +
                       "; the smallest needs " + gigabytes(least_memory_) + ", " +
                       gigabytes(least_memory_ - capacity_) + " too much" +
                       (keep_.all().empty() ? "" : ", given " + keep_.text()),
                   without.empty() ? "give more of them, or a batch that they divide" : without);
}

}  // namespace isobar::perf
