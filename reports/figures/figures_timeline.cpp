// The lanes of some ranks during one step, measured (for a run with a trace) and predicted.
#include <algorithm>

#include "model/base/error.h"
#include "model/base/text/printed.h"
#include "reports/figures/figures.h"
#include "reports/style/palette.h"
#include "reports/timeline.h"

namespace isobar::report {
namespace {

using nlohmann::json;

struct Drawn {
  std::string name;  // measured, predicted
  StepTimeline steps;
};

std::string percent(double part, double whole) {
  return printed("%.1f %%", 100 * part / whole);
}

// Segments of all timelines, lane by lane, measured above predicted; only the longest where there are many.
json rows_of(const std::vector<Drawn>& all) {
  constexpr size_t kMost = 6000;
  std::vector<std::pair<const Segment*, std::string>> shown;
  for (const Drawn& d : all)
    for (const Segment& s : d.steps.segments)
      shown.emplace_back(&s, "rank " + std::to_string(s.rank) + " " + s.lane + ", " + d.name);
  if (shown.size() > kMost) {
    std::stable_sort(shown.begin(), shown.end(), [](const auto& a, const auto& b) {
      return a.first->end_ms - a.first->begin_ms > b.first->end_ms - b.first->begin_ms;
    });
    shown.resize(kMost);
  }
  std::stable_sort(shown.begin(), shown.end(),
                   [](const auto& a, const auto& b) { return a.second < b.second; });
  json rows = json::array();
  for (const auto& [s, lane] : shown)
    rows.push_back({{"lane", lane},
                    {"what", s->what},
                    {"op", s->op},
                    {"begin", rounded(s->begin_ms)},
                    {"end", rounded(s->end_ms)},
                    {"ms", rounded(s->end_ms - s->begin_ms)}});
  return rows;
}

Figure drawn(const std::vector<Drawn>& all, const std::string& of) {
  json ends = json::array();  // of the steps
  double longest = 0;
  std::string shares;
  for (const Drawn& d : all) {
    ends.push_back({{"begin", rounded(d.steps.step_ms)}, {"of", d.name}});
    longest = std::max(longest, d.steps.step_ms);
    shares += " " + d.name + ": " + percent(d.steps.exposed_ms, d.steps.step_ms) + " exposed, " +
              percent(d.steps.idle_ms, d.steps.step_ms) + " idle;";
  }
  shares.back() = '.';
  json spec = chart_spec(
      "timeline",
      {{"rows", rows_of(all)},
       {"step", {0, 1.002 * longest}},
       {"states", palette::scale_of({"compute", "data", "communication, hidden", "communication, exposed"})},
       {"ends", ends}});
  return {"timeline", "Where the time goes", "Timeline of a step",
          "One step of " + of +
              "; lines end it (dashed: predicted). Dark pink: no computation hides this communication. Gaps: "
              "the lane is idle. Of the step," +
              shares,
          spec};
}

}  // namespace

std::vector<Figure> timeline_figures(const ReportData& d, std::vector<std::string>& problems) {
  std::vector<Drawn> all;
  const ReportRun* run = nullptr;  // the fastest run whose trace can be read, else that whose ops are shown
  for (const ReportRun* candidate : traced_runs(d)) try {
      if (auto t = measured_timeline(candidate->run); t && !run) {
        run = candidate;
        all.push_back({"measured", std::move(*t)});
        break;
      }
    } catch (const ConfigError& e) {
      problems.emplace_back(e.what());
    }
  if (!run) run = ops_run(d);
  if (d.predictor && run && run->prediction) {
    if (all.empty())  // no trace: only the end of the measured step
      all.push_back({"measured", {.step_ms = 1e3 * run->measured()}});
    all.push_back({"predicted", predicted_timeline(*run, *d.predictor)});
  }
  if (all.empty()) return {};
  return {drawn(all, run->label)};
}

}  // namespace isobar::report
