#include "bench/sweep/results/summary.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <vector>

namespace isobar::sweep {
namespace {

using nlohmann::json;

std::string format(const char* pattern, double v) {
  char text[48];
  std::snprintf(text, sizeof text, pattern, v);
  return text;
}

// Pads columns to their widest cell, except the last.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> width;
  for (const auto& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      out += row[i];
      if (i + 1 < row.size()) out += std::string(width[i] - row[i].size() + 2, ' ');
    }
    out += '\n';
  }
  return out;
}

std::vector<std::string> axis_keys(const Matrix& m) {
  std::set<std::string> keys;
  for (const Trial& t : m.trials)
    for (const auto& axis : t.axes) keys.insert(axis.first);
  return {keys.begin(), keys.end()};
}

std::string axis_value(const Assignments& axes, const std::string& key) {
  const auto it = std::find_if(axes.begin(), axes.end(), [&](const auto& a) { return a.first == key; });
  return it == axes.end() ? "-" : show_value(it->second);
}

// In the machine's currency if it has a price, else in rank hours.
std::string shown_cost(const Forecast& f) {
  return f.cost > 0 ? format("%.3g ", f.cost) + f.currency : format("%.3g rank h", f.rank_hours);
}

// Trials predicted not to fit list their numbers; each other reason names its first combination.
std::string skipped_lines(const Matrix& m) {
  std::string out;
  for (const SkipReason& r : skip_reasons(m))
    out += "  skipped " + (r.count > 1 ? std::to_string(r.count) + ", the first is " : "") + label(r.first) +
           ": " + r.reason + "\n";
  for (const Skipped& s : m.skipped)
    if (s.forecast)
      out += "  infeasible " + label(s.axes) + ": " + s.reason +
             format(" (predicted %.4g ms a step, ", 1e3 * s.forecast->step_s) +
             format("%.3g GB a rank, ", 1e-9 * static_cast<double>(s.forecast->memory_bytes)) +
             shown_cost(*s.forecast) + " a trial)\n";
  return out;
}

json reasons_json(const Matrix& m) {
  json j = json::array();
  for (const SkipReason& r : skip_reasons(m))
    j.push_back({{"reason", r.reason}, {"count", r.count}, {"first", object_of(r.first)}});
  return j;
}

json forecast_json(const Forecast& f) {
  return {{"step_s", f.step_s},           {"upper_s", f.upper_s},
          {"ceiling_s", f.ceiling_s},     {"memory_bytes", f.memory_bytes},
          {"micro_batch", f.micro_batch}, {"trial_s", f.trial_s},
          {"rank_hours", f.rank_hours},   {"cost", f.cost},
          {"currency", f.currency},       {"closed_form", f.closed_form},
          {"infeasible", f.infeasible}};
}

json skipped_json(const Matrix& m) {
  json j = json::array();
  for (const Skipped& s : m.skipped) {
    j.push_back({{"axes", object_of(s.axes)},
                 {"state", s.forecast ? "skipped_infeasible" : "skipped"},
                 {"reason", s.reason}});
    if (s.forecast) j.back()["forecast"] = forecast_json(*s.forecast);
  }
  return j;
}

std::map<std::string, int64_t> count_classes(const SweepOutcome& o) {
  std::map<std::string, int64_t> counts;
  for (const records::RunRecord& r : o.runs) ++counts[records::name_of(r.run_class)];
  return counts;
}

// Runs that did not finish come last, in the sweep's order.
std::vector<const records::RunRecord*> fastest_first(const SweepOutcome& o, Statistic s) {
  std::vector<const records::RunRecord*> out;
  for (const records::RunRecord& r : o.runs) out.push_back(&r);
  const auto key = [s](const records::RunRecord* r) {
    return r->run_class == records::RunClass::ok ? r->rate(s) : -1;
  };
  std::stable_sort(out.begin(), out.end(),
                   [&](const records::RunRecord* a, const records::RunRecord* b) { return key(a) > key(b); });
  return out;
}

const records::RunRecord* fastest(const SweepOutcome& o, Statistic s) {
  const records::RunRecord* best = nullptr;
  for (const records::RunRecord& r : o.runs)
    if (r.run_class == records::RunClass::ok && r.rate(s) > (best ? best->rate(s) : 0)) best = &r;
  return best;
}

// Remarks on a run beside its numbers, in one line.
std::string note_of(const records::RunRecord& r) {
  std::string note = records::words_of(r.contention);
  if (!r.repeats.empty()) note += (note.empty() ? "" : "; ") + ("repeats " + r.repeats);
  if (!r.message.empty()) note += (note.empty() ? "" : "; ") + r.message;
  note = note.substr(0, 100);
  std::replace(note.begin(), note.end(), '\n', ' ');
  return note;
}

std::string contended_line(const SweepOutcome& o) {
  int64_t marked = 0, repeats = 0;
  for (const records::RunRecord& r : o.runs) {
    marked += r.contention.marked() ? 1 : 0;
    repeats += r.repeats.empty() ? 0 : 1;
  }
  if (marked == 0 && repeats == 0) return "";
  return std::to_string(marked) +
         " contended (step times scatter far more than in comparable trials, or a trial is slower than its "
         "repetitions), " +
         std::to_string(repeats) +
         " repeats of contended trials; all are kept, and a fit gives contended ones little weight\n";
}

// Predicted step, duration of the whole trial, memory of the fullest rank, cost.
std::vector<std::string> forecast_cells(const Trial& t) {
  if (!t.forecast) return {"-", "-", "-", "-"};
  const Forecast& f = *t.forecast;
  return {format("%.4g", 1e3 * f.step_s), format("%.3g", f.trial_s),
          format("%.3g", 1e-9 * static_cast<double>(f.memory_bytes)), shown_cost(f)};
}

// For trials whose micro-batch is chosen by the GPU's memory.
std::string chosen_micro_batches(const Matrix& m) {
  int64_t trials = 0, least = 0, most = 0;
  for (const Trial& t : m.trials)
    if (const int64_t size = t.forecast ? t.forecast->micro_batch : 0; size > 0) {
      least = trials++ == 0 ? size : std::min(least, size);
      most = std::max(most, size);
    }
  if (trials == 0) return "";
  return std::to_string(trials) +
         " trials do not set policy.micro_batch and use the largest that fits: " + std::to_string(least) +
         (most > least ? " to " + std::to_string(most) : "") + "\n";
}

// Total of the sweep, running one trial at a time.
std::string forecast_total(const Matrix& m) {
  double seconds = 0, rank_hours = 0, cost = 0;
  std::string currency;
  bool closed_form = false;
  for (const Trial& t : m.trials) {
    if (!t.forecast) return "";
    seconds += t.forecast->trial_s;
    closed_form |= t.forecast->closed_form;
    rank_hours += t.forecast->rank_hours;
    cost += t.forecast->cost;
    if (t.forecast->cost > 0) currency = t.forecast->currency;
  }
  return "forecast: " + format("%.3g", seconds / 60) + " minutes in sequence, without start-up; " +
         format("%.3g", rank_hours) + " rank hours" + (cost > 0 ? format(", %.4g ", cost) + currency : "") +
         (closed_form ? "; with this many trials by the closed form, close to `isobar predict`" : "") + "\n" +
         chosen_micro_batches(m);
}

}  // namespace

std::string dry_run_table(const Matrix& m) {
  const std::vector<std::string> keys = axis_keys(m);
  std::vector<std::vector<std::string>> rows(1, {"trial", "id", "rep"});
  const bool own_ranks = std::find(keys.begin(), keys.end(), kRanksKey) == keys.end();
  if (own_ranks) rows[0].emplace_back("ranks");
  for (const std::string& key : keys) rows[0].push_back(short_key(key));
  const bool forecast =
      std::any_of(m.trials.begin(), m.trials.end(), [](const Trial& t) { return t.forecast.has_value(); });
  if (forecast)
    for (const char* name : {"step ms", "trial s", "GB/rank", "cost", "note"}) rows[0].emplace_back(name);
  for (const Trial& t : m.trials) {
    std::vector<std::string> row = {t.name, t.id, std::to_string(t.repetition)};
    if (own_ranks) row.push_back(std::to_string(t.ranks()));
    for (const std::string& key : keys) row.push_back(axis_value(t.axes, key));
    if (forecast) {
      for (std::string& cell : forecast_cells(t)) row.push_back(std::move(cell));
      row.push_back(t.forecast && !t.forecast->infeasible.empty() ? "runs to test: " + t.forecast->infeasible
                                                                  : "");
    }
    rows.push_back(std::move(row));
  }
  std::string out = table(rows) + std::to_string(m.trials.size()) + " trials, in this order; " +
                    std::to_string(m.skipped.size()) + " skipped, " + std::to_string(m.excluded) +
                    " excluded";
  if (m.duplicates) out += ", " + std::to_string(m.duplicates) + " listed twice";
  return out + "\n" + forecast_total(m) + skipped_lines(m);
}

json dry_run_json(const Matrix& m, const SweepSpec& sweep) {
  json j = {{"sweep", sweep.file},        {"trials", json::array()},
            {"skipped", skipped_json(m)}, {"skipped_reasons", reasons_json(m)},
            {"excluded", m.excluded},     {"duplicates", m.duplicates}};
  for (const Trial& t : m.trials) {
    json one = {{"id", t.id},
                {"name", t.name},
                {"repetition", t.repetition},
                {"ranks", t.ranks()},
                {"axes", object_of(t.axes)},
                {"spec", to_json(t.spec)}};
    if (t.forecast) one["forecast"] = forecast_json(*t.forecast);
    j["trials"].push_back(std::move(one));
  }
  return j;
}

std::string summary_table(const Matrix& m, const SweepOutcome& o, Statistic statistic) {
  std::map<std::string, std::string> names;
  for (const Trial& t : m.trials) names[t.id] = t.name;
  std::vector<std::vector<std::string>> rows(1, {"trial"});
  for (const char* name : {"class", "step ms", "p10", "p90", "samples/s", "arena MB", "rss MB", "id", "note"})
    rows[0].emplace_back(name);
  for (const records::RunRecord* run : fastest_first(o, statistic)) {
    const records::RunRecord& r = *run;
    std::vector<std::string> row = {names[r.id], records::name_of(r.run_class)};
    const bool timed = r.step_s.of(statistic) > 0;
    for (double s : {r.step_s.of(statistic), r.step_s.p10, r.step_s.p90})
      row.push_back(timed ? format("%.1f", s * 1e3) : "-");
    row.push_back(timed ? format("%.2f", r.rate(statistic)) : "-");
    row.push_back(r.arena_bytes ? format("%.0f", static_cast<double>(r.arena_bytes) / 1e6) : "-");
    row.push_back(r.peak_rss_bytes ? format("%.0f", static_cast<double>(r.peak_rss_bytes) / 1e6) : "-");
    row.push_back(r.id);
    row.push_back(note_of(r));
    rows.push_back(std::move(row));
  }
  std::string out = table(rows) + "step ms, samples/s: " + title_of(statistic) + "\n\n" +
                    std::to_string(o.runs.size()) + " trials:";
  for (const auto& [name, n] : count_classes(o)) out += " " + std::to_string(n) + " " + name;
  out += "  (" + std::to_string(o.started) + " run now, " + std::to_string(o.reused) + " already complete, " +
         std::to_string(o.adopted) + " recovered from an interrupted sweep)\n";
  out += contended_line(o);
  if (const records::RunRecord* best = fastest(o, statistic)) {
    out += "fastest: " + names[best->id] + " (" + best->id + ") with " +
           format("%.2f", best->rate(statistic)) + " samples/s (" + title_of(statistic) + ")\n";
  }
  for (size_t i = 0; i < m.trials.size() && i < o.runs.size(); ++i) {
    const records::RunRecord &base = o.runs[i], *best = fastest(o, statistic);
    if (!m.trials[i].baseline || base.run_class != records::RunClass::ok || !best ||
        base.rate(statistic) <= 0)
      continue;
    out += "baseline " + m.trials[i].name + ": " + format("%.2f", base.rate(statistic)) +
           " samples/s; the fastest trial is " +
           format("%.2f", best->rate(statistic) / base.rate(statistic)) + " times as fast\n";
  }
  if (o.used)
    out += std::to_string(o.used->jobs) + " jobs in " + std::to_string(o.used->lives) + " attempts used " +
           format("%.3g", o.used->node_s / 3600) + " node hours by the scheduler's accounting\n";
  for (const std::string& p : o.problems) out += "problem: " + p + "\n";
  return out + skipped_lines(m);
}

json summary_json(const Matrix& m, const SweepOutcome& o, const SweepSpec& sweep, const std::string& results,
                  Statistic statistic) {
  json j = {{"sweep", sweep.file},          {"results", results},
            {"complete", o.complete()},     {"statistic", name_of(statistic)},
            {"interrupted", o.interrupted}, {"counts", count_classes(o)},
            {"started", o.started},         {"reused", o.reused},
            {"adopted", o.adopted},         {"skipped", skipped_json(m)},
            {"problems", o.problems},       {"trials", json::array()}};
  j["skipped_reasons"] = reasons_json(m);
  j["excluded"] = m.excluded;
  std::set<std::string> baseline;
  for (const Trial& t : m.trials)
    if (t.baseline) baseline.insert(t.id);
  std::map<std::string, std::string> names;
  for (const Trial& t : m.trials) names[t.id] = t.name;
  for (const records::RunRecord& r : o.runs)
    j["trials"].push_back(
        {{"id", r.id},
         {"name", names[r.id]},
         {"repetition", r.repetition},
         {"attempt", r.attempt},
         {"class", records::name_of(r.run_class)},
         {"message", r.message},
         {"axes", r.axes},
         {"baseline", baseline.contains(r.id)},
         {"ranks", r.ranks},
         {"step_s",
          {{"median", r.step_s.median}, {"p10", r.step_s.p10}, {"p90", r.step_s.p90}, {"min", r.step_s.min}}},
         {"samples_per_s", r.rate(statistic)},
         {"contended", r.contention.marked()},
         {"spread", r.step_s.spread()},
         {"siblings_spread", r.contention.siblings},
         {"repeats", r.repeats},
         {"arena_bytes", r.arena_bytes},
         {"peak_rss_bytes", r.peak_rss_bytes},
         {"wall_s", r.wall_s}});
  if (o.used)
    j["accounting"] = {{"jobs", o.used->jobs}, {"lives", o.used->lives}, {"node_s", o.used->node_s}};
  const records::RunRecord* best = fastest(o, statistic);
  j["fastest"] = best ? json(best->id) : json(nullptr);
  return j;
}

}  // namespace isobar::sweep
