#include "reports/answers/fit_text.h"

#include <algorithm>
#include <map>

#include "model/base/text/printed.h"
#include "model/records/naming.h"

namespace isobar::report {
namespace {

using nlohmann::json;

// Names of runs by their ids.
std::map<std::string, std::string> names_of(const std::vector<perf::MeasuredRun>& runs) {
  std::vector<records::Nameable> all;
  for (const perf::MeasuredRun& r : runs) all.push_back({.spec = &r.spec});
  const records::Names n = records::name_by_difference(all);
  std::map<std::string, std::string> out;
  for (size_t i = 0; i < runs.size(); ++i) out[runs[i].id] = n.names[i];
  return out;
}

std::string rows_text(const perf::Holdout& h, const std::map<std::string, std::string>& names) {
  size_t width = 8;
  for (const perf::HoldoutRow& r : h.rows) width = std::max(width, names.at(r.id).size());
  std::string text = printed("  %-*s  %11s  %7s  %11s  %23s  %7s\n", static_cast<int>(width), "held out",
                             "measured ms", "80 %", "predicted", "80 % interval", "error");
  std::vector<const perf::HoldoutRow*> rows;
  for (const perf::HoldoutRow& r : h.rows) rows.push_back(&r);
  std::sort(rows.begin(), rows.end(),
            [](const perf::HoldoutRow* a, const perf::HoldoutRow* b) { return a->measured < b->measured; });
  for (const perf::HoldoutRow* r : rows)
    text += printed("  %-*s  %11.3f  +-%4.1f%%  %11.3f  %10.3f - %10.3f  %+6.1f%%  %s%s%s\n",
                    static_cast<int>(width), names.at(r->id).c_str(), 1e3 * r->measured,
                    100 * (r->measured_upper / r->measured - 1), 1e3 * r->predicted, 1e3 * r->lower,
                    1e3 * r->upper, 100 * r->error(), r->id.c_str(), r->inside() ? "" : "  outside",
                    r->contended ? "  contended" : "");
  return text;
}

std::string held_out_text(const perf::Holdout& h, const std::vector<perf::MeasuredRun>& runs) {
  if (h.rows.empty()) return "";
  std::string text = "\n" + rows_text(h, names_of(runs));
  text += printed(
      "Held out: %zu runs, median error %.1f %%, mean %.1f %%, 90th percentile %.1f %%, bias %+.1f %%,\n"
      "rank correlation %.2f, regret of the first choice %.1f %%; the 80 %% interval covers %.0f %% of "
      "them\n",
      h.rows.size(), 100 * h.median_error, 100 * h.mape, 100 * h.p90, 100 * h.bias, h.rank_correlation,
      100 * h.regret, 100 * h.coverage);
  if (h.settings > 0 && h.settings < h.rows.size())
    text += printed(
        "Median of repetitions for each of %zu settings: median error %.1f %%. One repetition differs from "
        "the median of the others by %.1f %% (median), a limit for any prediction of single runs\n",
        h.settings, 100 * h.settings_error, 100 * h.repeat_error);
  return text;
}

std::string fitted_text(const FitReport& r) {
  std::string text = printed(
      "Fitted to %zu runs. Step times, measured and predicted, are the %s; %s.\n"
      "Coefficients whose value or interval the runs changed:\n",
      r.after.fit->runs.size(), title_of(r.after.fit->statistic), perf::words_of(r.between).c_str());
  text += printed("  %-24s %12s %12s %25s  %s\n", "coefficient", "before", "fitted", "80 % interval", "unit");
  for (size_t i = 0; i < perf::kCoefs; ++i) {
    const perf::Coefficient &a = r.before.coefficients[i], &b = r.after.coefficients[i];
    if (a.value == b.value && a.lower == b.lower) continue;
    text += printed("  %-24s %12.4g %12.4g %11.4g - %11.4g  %s\n", perf::info_of(i).name, a.value, b.value,
                    b.lower, b.upper, perf::info_of(i).unit);
  }
  for (const std::string& n : r.after.fit->notes) text += printed("note: %s\n", n.c_str());
  text += printed("Residual scatter of log step times: %.1f %%; median error of the fitted runs: %.1f %%\n",
                  100 * r.after.fit->spread.at("all"), 100 * r.fitted.median_error);
  return text;
}

std::string repeated_text(const perf::RepeatedHoldout& repeated) {
  std::string text;
  if (repeated.runs > 0)
    text += printed(
        "Over %zu random parts: median error %.1f to %.1f %% (median %.1f %%), the 80 %% interval covers "
        "%.0f %%; regret of the first choice among all runs: median %.1f %%, worst %.1f %%\n",
        repeated.median_errors.size(), 100 * repeated.median_errors.front(),
        100 * repeated.median_errors.back(), 100 * repeated.median_errors[repeated.median_errors.size() / 2],
        100 * repeated.coverage(), 100 * repeated.regrets[repeated.regrets.size() / 2],
        100 * repeated.regrets.back());
  if (!repeated.settings_errors.empty())
    text += printed("By setting, with the median of its repetitions: %.1f to %.1f %% (median %.1f %%)\n",
                    100 * repeated.settings_errors.front(), 100 * repeated.settings_errors.back(),
                    100 * repeated.settings_errors[repeated.settings_errors.size() / 2]);
  return text;
}

void put_splits(const perf::RepeatedHoldout& repeated, json& out) {
  if (repeated.runs > 0)
    out["splits"] = {{"median_errors", repeated.median_errors},
                     {"settings_median_errors", repeated.settings_errors},
                     {"coverage", repeated.coverage()},
                     {"regrets", repeated.regrets}};
}

}  // namespace

std::string text_of(const FitReport& r) {
  return fitted_text(r) + held_out_text(r.held_out, r.runs) + perf::text_of(r.memory) +
         repeated_text(r.repeated);
}

std::string text_of(const SettingsReport& r) {
  std::string text = printed(
      "By settings: no net is described. Fitted to %zu runs. Step times are the %s; %s.\n"
      "Factors of the step time, other settings as they are:\n",
      r.fit.ids().size(), title_of(r.statistic), perf::words_of(r.between).c_str());
  for (const perf::SettingEffect& e : r.fit.effects())
    text += printed("  %-24s %-28s %8.3f %10.3f - %.3f\n", e.key.c_str(),
                    e.value.empty() ? "twice" : e.value.c_str(), e.factor, e.lower, e.upper);
  text += printed("Scatter of a run around its settings: %.1f %%; median error of the fitted runs: %.1f %%\n",
                  100 * r.fit.noise(), 100 * r.fitted.median_error);
  return text + held_out_text(r.held_out, r.runs) + repeated_text(r.repeated);
}

json json_of(const SettingsReport& r) {
  json out = perf::holdout_json(r.statistic, r.fitted, r.held_out);
  for (const perf::SettingEffect& e : r.fit.effects())
    out["effects"].push_back(
        {{"key", e.key}, {"value", e.value}, {"factor", e.factor}, {"lower", e.lower}, {"upper", e.upper}});
  put_splits(r.repeated, out);
  return out;
}

json json_of(const FitReport& r) {
  json out = perf::holdout_json(r.after, r.fitted, r.held_out);
  out["run_to_run"] = {{"sigma", r.between.sigma}, {"seen", r.between.df}};
  out["notes"] = r.after.fit->notes;
  out["memory"] = {{"arenas", r.memory.runs},  {"planned_to_the_byte", r.memory.same},
                   {"peaks", r.memory.peaks},  {"peak_median_error", r.memory.median_error},
                   {"peak_p90", r.memory.p90}, {"peak_bias", r.memory.bias}};
  put_splits(r.repeated, out);
  for (size_t i = 0; i < perf::kCoefs; ++i) {
    const perf::Coefficient& c = r.after.coefficients[i];
    out["coefficients"][perf::info_of(i).name] = {
        {"value", c.value}, {"lower", c.lower}, {"upper", c.upper}, {"unit", perf::info_of(i).unit}};
  }
  return out;
}

}  // namespace isobar::report
