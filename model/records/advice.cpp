#include "model/records/advice.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "model/base/text/printed.h"

namespace isobar::records {
namespace {

constexpr int64_t kWarmup = 2;
constexpr size_t kNow = 20, kLong = 100;  // steps that say what a run does now, and what few steps do
constexpr double kFirst_s = 60;
constexpr size_t kFirstSteps = 15;
constexpr double kStable = 0.3;        // (p90 - p10) / median of a minute to compare with
constexpr double kOwn = 1.08;          // a run's own pace varies by this much between minutes
constexpr double kRank = 1.15;         // a rank that computes so much longer is slow
constexpr double kClock = 0.9;         // a clock that has fallen so far
constexpr double kStraggler = 2;       // a step that takes so much longer than the others
constexpr int64_t kWithoutCause = 40;  // slow steps before that is said though no cause is seen
constexpr int64_t kSwap = 64 << 20;    // bytes

double ms(double s) {
  return 1e3 * s;
}

std::string place_of(const RankRecord& r) {
  return "rank " + std::to_string(r.rank) + (r.host.empty() ? "" : " on " + r.host);
}

}  // namespace

nlohmann::json to_json(const ExpectedStep& e) {
  return {{"step_s", e.seconds}, {"lo_s", e.lower}, {"hi_s", e.upper}, {"from", e.from}};
}

std::optional<ExpectedStep> expected_in(const nlohmann::json& provenance) {
  if (!provenance.is_object()) return std::nullopt;
  const auto at = provenance.find("expected");
  if (at == provenance.end() || !at->is_object()) return std::nullopt;
  ExpectedStep e;
  for (const auto& [key, to] : {std::pair{"step_s", &e.seconds}, {"lo_s", &e.lower}, {"hi_s", &e.upper}}) {
    const auto number = at->find(key);
    if (number == at->end() || !number->is_number() || !(number->get<double>() > 0)) return std::nullopt;
    *to = number->get<double>();
  }
  if (const auto from = at->find("from"); from != at->end() && from->is_string()) e.from = *from;
  return e;
}

void Advisor::ranks(const RanksRecord& r) {
  if (!first_ranks_) first_ranks_ = r;
  last_ranks_ = r;
}

void Advisor::learn(const StepRecord& s) {
  first_.push_back(s.seconds);
  first_s_ += s.seconds;
  if (first_s_ < kFirst_s || first_.size() < kFirstSteps) return;
  const StepStats stats = step_stats(first_);
  if (stats.spread() < kStable)
    context_.expected =
        ExpectedStep{stats.median, stats.p10, std::max(stats.p90, kOwn * stats.median), "its first minute"};
  first_.clear();
  first_s_ = 0;
}

std::optional<std::string> Advisor::once(const std::string& kind, const std::string& text) {
  if (!said_.insert(kind).second) return std::nullopt;
  given_.push_back(text);
  return text;
}

std::optional<Advisor::Cause> Advisor::loader(double now, double wait) const {
  const double excess = now - context_.expected->seconds;
  if (wait < 0.5 * excess || wait < 0.03 * now) return std::nullopt;
  const double computes = now - wait;
  std::string mend;
  if (computes > 0) {
    const auto w = static_cast<double>(context_.workers);
    const double batch = w > 0 ? w * now : wait;  // seconds of a worker
    mend =
        printed(" (%.0f workers would keep up, %lld are)", std::max(w + 1, std::ceil(batch / computes - 0.1)),
                static_cast<long long>(context_.workers));
  }
  return Cause{"loader", printed("the loader, %.3g ms of waiting", ms(wait)) + mend};
}

std::optional<Advisor::Cause> Advisor::slow_rank() const {
  if (!last_ranks_ || last_ranks_->ranks.size() < 2) return std::nullopt;
  std::vector<double> computes;
  const RankRecord* slowest = nullptr;
  for (const RankRecord& r : last_ranks_->ranks) {
    if (!r.compute_s) return std::nullopt;
    computes.push_back(*r.compute_s);
    if (!slowest || *r.compute_s > *slowest->compute_s) slowest = &r;
  }
  std::sort(computes.begin(), computes.end());
  computes.pop_back();
  const double usual = quantile(computes, 0.5);
  if (*slowest->compute_s < kRank * usual) return std::nullopt;
  std::string text = printed("%s computes %.3g ms, the others %.3g", place_of(*slowest).c_str(),
                             ms(*slowest->compute_s), ms(usual));
  if (slowest->mhz) text += printed(", at %.0f MHz", *slowest->mhz);
  return Cause{"rank", text};
}

std::optional<Advisor::Cause> Advisor::clocks() const {
  if (!last_ranks_ || !first_ranks_) return std::nullopt;
  for (const RankRecord& r : last_ranks_->ranks)
    for (const RankRecord& before : first_ranks_->ranks)
      if (before.rank == r.rank && before.mhz && r.mhz && *r.mhz < kClock * *before.mhz)
        return Cause{"clock", printed("the clock of %s fell from %.0f to %.0f MHz", place_of(r).c_str(),
                                      *before.mhz, *r.mhz)};
  return std::nullopt;
}

Advisor::Cause Advisor::cause_of(double now, double wait) const {
  if (auto c = loader(now, wait)) return *c;
  if (swapped_ > kSwap)
    return {"swap",
            printed("memory is swapped, %.3g GB read back so far", 1e-9 * static_cast<double>(swapped_))};
  if (auto c = clocks()) return *c;
  if (auto c = slow_rank()) return *c;
  return {"", "its records do not say why (waits, ranks and clocks are as usual, or not known)"};
}

std::optional<std::string> Advisor::straggler(const ExpectedStep& e) {
  if (lately_.size() < kLong) return std::nullopt;
  std::vector<double> all;
  double sum = 0, lost = 0;
  for (const StepRecord& s : lately_) all.push_back(s.seconds), sum += s.seconds;
  const double usual = quantile(all, 0.5);
  int64_t n = 0;
  for (const double s : all)
    if (s > kStraggler * usual) ++n, lost += s - usual;
  if (n < 2 || sum / static_cast<double>(all.size()) < e.upper) return std::nullopt;
  return once("straggler",
              printed("%lld of %zu steps take %.2g times the others, which is %.0f %% of the time",
                      static_cast<long long>(n), all.size(), 1 + lost / (static_cast<double>(n) * usual),
                      100 * lost / sum));
}

std::optional<std::string> Advisor::step(const StepRecord& s) {
  if (++steps_ <= kWarmup || !(s.seconds > 0)) return std::nullopt;
  lately_.push_back(s);
  if (lately_.size() > kLong) lately_.pop_front();
  if (!context_.expected) {
    learn(s);
    return std::nullopt;
  }
  if (lately_.size() < kNow) return std::nullopt;
  std::vector<double> now, waits;
  for (auto i = lately_.end() - kNow; i != lately_.end(); ++i)
    now.push_back(i->seconds), waits.push_back(i->data_wait_s.value_or(0));
  const ExpectedStep& e = *context_.expected;
  const double seconds = quantile(now, 0.5);
  if (seconds <= e.upper) {
    slow_ = 0;
    return straggler(e);
  }
  ++slow_;
  const Cause c = cause_of(seconds, quantile(waits, 0.5));
  if (c.kind.empty() && (slow_ < kWithoutCause || !said_.empty())) return std::nullopt;
  return once(
      c.kind,
      printed("%.3g ms a step, %.3g expected (%s): ", ms(seconds), ms(e.seconds), e.from.c_str()) + c.text);
}

Advisor advisor_of(const StartRecord& start) {
  AdviceContext context{.expected = expected_in(start.provenance)};
  const auto workers = nlohmann::json::json_pointer("/data/workers");
  if (start.spec.contains(workers) && start.spec[workers].is_number_integer())
    context.workers = start.spec[workers].get<int64_t>();
  return Advisor(context);
}

int64_t swapped_in_bytes() {
  std::ifstream in("/proc/vmstat");
  std::string name;
  for (int64_t pages = 0; in >> name >> pages;)
    if (name == "pswpin") return pages * ::sysconf(_SC_PAGESIZE);
  return 0;
}

}  // namespace isobar::records
