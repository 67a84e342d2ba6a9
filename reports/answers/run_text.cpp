#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/base/text/printed.h"
#include "perfmodel/machine/machine.h"
#include "reports/answers/answers.h"

namespace isobar::report {
namespace {

// The factors of a prediction: the step's amounts, the machine file's prices for them, and the sources of
// those prices. `isobar predict --rates` shows it under the terms.

struct RateLine {
  std::string name, unit, source;          // unit: the amount's
  double amount, price, seconds, of_peak;  // of_peak: 0 where there is no peak
};

std::vector<RateLine> lines_of(const perf::Counts& counts, const perf::Machine& m) {
  std::vector<RateLine> lines;
  for (size_t i = 0; i < perf::kCoefs; ++i) {
    const perf::CoefficientInfo& info = perf::info_of(i);
    const perf::Coefficient& c = m.coefficients[i];
    const std::string unit = info.unit;
    const bool priced = info.resource != perf::Resource::sharing && info.resource != perf::Resource::write &&
                        info.resource != perf::Resource::bytes && unit[0] == 's';
    if (!priced || counts[i] * c.value <= 0) continue;
    std::string source;
    for (const std::string& p : c.provenance) source += (source.empty() ? "" : "; ") + p;
    if (source.empty() || source == "spec") source = "derived from the peaks (perfmodel/machine/machine.cpp)";
    const bool bytes = unit == "s/B";
    const auto peak = m.peaks.find(info.peak ? info.peak : bytes ? "memory" : "");
    lines.push_back({info.name, unit == "s" ? "calls" : unit.substr(2), source, counts[i], c.value,
                     counts[i] * c.value,
                     peak == m.peaks.end() || info.resource == perf::Resource::wire
                         ? 0
                         : 1 / (c.value * peak->second.value)});
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const RateLine& a, const RateLine& b) { return a.seconds > b.seconds; });
  return lines;
}

/// `counts`: of the slowest rank's step, hidden time included, so the lines need not add up to the step.
/// Largest first; prices of calls, FLOPs and bytes only.
std::string rates_text(const perf::Counts& counts, const perf::Machine& machine) {
  std::string text = printed("\n  %-24s %10s %10s %-5s %11s %8s  %s\n", "price", "ms", "amount", "",
                             "a unit, s", "of peak", "source");
  for (const RateLine& l : lines_of(counts, machine))
    text += printed("  %-24s %10.3f %10.4g %-5s %11.4g %7.0f%%  %s\n", l.name.c_str(), 1e3 * l.seconds,
                    l.amount, l.unit.c_str(), l.price, 100 * l.of_peak, l.source.c_str());
  return text;
}

nlohmann::json rates_json(const perf::Counts& counts, const perf::Machine& machine) {
  nlohmann::json all = nlohmann::json::array();
  for (const RateLine& l : lines_of(counts, machine))
    all.push_back({{"name", l.name},
                   {"seconds", l.seconds},
                   {"amount", l.amount},
                   {"unit", l.unit},
                   {"price", l.price},
                   {"of_peak", l.of_peak},
                   {"source", l.source}});
  return all;
}

using nlohmann::json;

json json_of(const std::optional<perf::SmallestChange>& c) {
  if (!c) return nullptr;
  return {
      {"set", c->set}, {"step_s", c->prediction.step_s}, {"memory_total_bytes", c->prediction.memory_total}};
}

std::string change_text(const std::optional<perf::SmallestChange>& c) {
  std::string text;
  if (!c) {
    text +=
        printed("no change of up to three layout and policy keys fits, even on 4,096 times as many ranks\n");
    return text;
  }
  text += printed("smallest change that fits:");
  for (const std::string& one : c->set) text += printed(" --set %s", one.c_str());
  const TimeUnit u = unit_of(c->prediction.step_s);
  text += printed("  (%.4g %s a step, %.3g GB a rank; changes the fewest keys, then the fastest)\n",
                  u.per_second * c->prediction.step_s, u.name,
                  1e-9 * static_cast<double>(c->prediction.memory_total));
  return text;
}

json json_of(const std::vector<nets::MemoryRung>& ladder) {
  json out = json::array();
  for (const nets::MemoryRung& r : ladder) out.push_back({{"set", r.set}, {"saves_bytes", r.saves}});
  return out;
}

std::string head_of(const RunSpec& spec, const perf::Prediction& p, const perf::Machine& m) {
  const perf::Layout l = perf::layout_of(spec);
  std::string text =
      printed("%s on %s: %ld rank%s", spec.file.c_str(), m.name.empty() ? m.file.c_str() : m.name.c_str(),
              l.world(), l.world() == 1 ? "" : "s");
  if (p.device == perf::Device::cores)
    text += printed(" x %ld thread%s", p.where.threads, p.where.threads == 1 ? "" : "s");
  return text + "\n" + engine_text(m) + "\n" + perf::text_of(l) + "\n\n";
}

std::string misfit_text(const perf::RunAnswer& a) {
  std::string text = "does not fit: " + perf::shortfall(a.prediction) + "\n" + change_text(a.change);
  if (!a.ladder.empty()) text += "single changes, for each rank: " + nets::to_text(a.ladder) + "\n";
  return text + "\n";
}

}  // namespace

std::string engine_text(const perf::Machine& m) {
  return m.engine.empty() ? "for Isobar's own engine (--engine NAME predicts another)"
                          : "for " + m.engine.substr(0, m.engine.find(' ')) + " (configs/engines)";
}

std::string ties_text(const perf::Ties& t, const std::vector<std::string>& telling) {
  std::string runs;
  for (const std::string& one : telling) runs += (runs.empty() ? "; runs that would tell: " : "; ") + one;
  return printed("  with 80 %% the fastest is %s (expected regret of the first %.2g %%)%s\n",
                 t.members.size() < 2 ? "the first" : printed("one of %zu", t.members.size()).c_str(),
                 100 * t.loss, t.members.size() < 2 ? "" : runs.c_str());
}

nlohmann::json json_of(const perf::Limit& l) {
  return {{"what", l.what}, {"gain", l.gain}, {"lift", l.lift}};
}

nlohmann::json json_of(const perf::Layout& l) {
  return {{"dp", l.dp},
          {"tp", l.tp},
          {"cp", l.cp},
          {"ep", l.ep},
          {"pp", l.pp},
          {"vpp", l.vpp},
          {"order", perf::rank_orders()[l.order]},
          {"micro_batch", l.micro_batch},
          {"schedule", name_of(perf::with_layout({}, l).policy.schedule)},
          {"zero", l.zero},
          {"sequence_parallel", l.sequence_parallel},
          {"recompute", name_of(l.recompute)},
          {"cp_kind", name_of(l.cp_kind)},
          {"workers", l.workers}};
}

std::string text_of(const perf::RunAnswer& a, const perf::Machine& m, bool rates) {
  const perf::Prediction& p = a.prediction;
  const RunSpec& spec = a.micro_batch.spec;
  std::string text = p.fits() ? a.limit.text() + "\n" : misfit_text(a);
  text += head_of(spec, p, m) + prediction_text(p, spec, m);
  if (a.micro_batch.chosen) text += "note: " + a.micro_batch.text() + "\n";
  if (rates) text += rates_text(p.counts, m);
  if (a.training) text += "\n  " + text_of(*a.training, m) + "\n";
  return text;
}

json json_of(const perf::RunAnswer& a, const perf::Machine& m, bool rates) {
  const perf::Prediction& p = a.prediction;
  const RunSpec& spec = a.micro_batch.spec;
  json j = json_of(p, spec, m);
  j["layout"] = json_of(perf::layout_of(spec));
  j["limit"] = json_of(a.limit);
  j["micro_batch_chosen"] = a.micro_batch.chosen;  // the largest that fits; else given
  if (!p.fits()) j["smallest_change"] = json_of(a.change), j["memory_ladder"] = json_of(a.ladder);
  if (rates) j["rates"] = rates_json(p.counts, m);
  if (a.training) j["budget"] = json_of(*a.training);
  return j;
}

}  // namespace isobar::report
