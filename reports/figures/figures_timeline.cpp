// The lanes of some ranks during one step, measured (for a run with a trace) and predicted.
#include <algorithm>
#include <cstdio>

#include "model/base/error.h"
#include "reports/figures/figures.h"
#include "reports/style/palette.h"
#include "reports/timeline.h"

namespace isobar {
namespace {

using nlohmann::json;

std::string percent(double part, double whole) {
  char s[32];
  std::snprintf(s, sizeof s, "%.1f %%", 100 * part / whole);
  return s;
}

Figure drawn(const StepTimeline& t, const std::string& id, const std::string& title, const std::string& of) {
  constexpr size_t kMost = 6000;  // most segments drawn; the shortest are dropped
  std::vector<const Segment*> shown;
  shown.reserve(t.segments.size());
  for (const Segment& s : t.segments) shown.push_back(&s);
  if (shown.size() > kMost) {
    std::stable_sort(shown.begin(), shown.end(), [](const Segment* a, const Segment* b) {
      return a->end_ms - a->begin_ms > b->end_ms - b->begin_ms;
    });
    shown.resize(kMost);
  }
  json rows = json::array();
  for (const Segment* s : shown)
    rows.push_back({{"lane", "rank " + std::to_string(s->rank) + " " + s->lane},
                    {"what", s->what},
                    {"op", s->op.empty() ? "idle" : s->op},
                    {"begin", rounded(s->begin_ms)},
                    {"end", rounded(s->end_ms)},
                    {"ms", rounded(s->end_ms - s->begin_ms)}});
  json colour = nominal("what");
  colour["scale"] =
      palette::scale_of({"compute", "data", "communication, hidden", "communication, exposed", "idle"});
  json x = quantity("begin", "milliseconds from the start of the step");
  x["scale"] = {{"domain", {0, t.step_ms}}, {"nice", false}};
  json spec = base_spec(rows);
  spec["height"] = {{"step", 24}};
  spec["mark"] = {{"type", "bar"}, {"height", {{"band", 0.86}}}};
  spec["encoding"] = {{"y", nominal("lane")},
                      {"x", x},
                      {"x2", {{"field", "end"}}},
                      {"color", colour},
                      {"tooltip",
                       {tip("op", "op"), tip("lane", "lane"), tip("what", "is"), tip("ms", "ms", ".4~g"),
                        tip("begin", "begins at [ms]", ".4~g")}}};
  return {id, "Where the time goes", title,
          "One step of " + of + ". Dark pink: exposed communication, which no computation overlaps (" +
              percent(t.exposed_ms, t.step_ms) +
              " of the step, mean over ranks). Grey: the compute lane is idle, " +
              "as in a pipeline bubble (" + percent(t.idle_ms, t.step_ms) + ").",
          spec};
}

}  // namespace

std::vector<Figure> timeline_figures(const ReportData& d, std::vector<std::string>& problems) {
  std::vector<Figure> out;
  const std::vector<const ReportRun*> candidates = traced_runs(d);
  const ReportRun* traced = nullptr;  // the fastest run whose trace can be read
  for (size_t i = 0; i < candidates.size() && !traced; ++i) try {
      if (const auto t = measured_timeline(candidates[i]->run)) {
        traced = candidates[i];
        out.push_back(drawn(*t, "timeline-measured", "Timeline, measured", traced->label));
      }
    } catch (const ConfigError& e) {
      problems.emplace_back(e.what());
    }
  const ReportRun* r = traced && traced->prediction ? traced : ops_run(d);
  if (d.predictor && r && r->prediction)
    out.push_back(drawn(
        predicted_timeline(*r, *d.predictor), "timeline-predicted", "Timeline, predicted",
        r->label + (r->run.spec.layout.pp > 1 ? ", one rank of each stage" : ", one rank of those alike")));
  return out;
}

}  // namespace isobar
