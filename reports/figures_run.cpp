// Single runs: training curves, and the ops of the best run.
#include <algorithm>
#include <cmath>

#include "reports/figures.h"
#include "reports/report_tables.h"

namespace isobar {
namespace {

using nlohmann::json;

constexpr size_t kCurves = 6;  // runs whose curves are drawn: more cannot be told apart

json line_spec(json rows, const std::string& y_title, const json& dash) {
  const bool few = rows.size() <= 80;
  json spec = base_spec(std::move(rows));
  spec["height"] = 300;
  const json x = {{"field", "step"}, {"type", "quantitative"}, {"title", "optimizer step"}};
  const json y = {
      {"field", "value"}, {"type", "quantitative"}, {"title", y_title}, {"scale", {{"zero", false}}}};
  const json colour = {{"field", "run"},
                       {"type", "nominal"},
                       {"title", nullptr},
                       {"legend", {{"columns", 1}, {"symbolType", "stroke"}}}};
  const json tips = {tip("run", "run"), tip("what", "curve"), tip("step", "step", "d"),
                     tip("value", y_title, ".4~g")};
  spec["layer"] = json::array();
  spec["layer"].push_back({{"mark", {{"type", "line"}, {"strokeWidth", 1.8}}},
                           {"encoding", {{"x", x}, {"y", y}, {"color", colour}, {"strokeDash", dash}}}});
  spec["layer"].push_back(points_of(x, y, "run", "what", few ? 25 : 60, few ? 1 : 0, tips));
  return spec;
}

json dashes(const std::vector<std::string>& what) {
  const json patterns = {{1, 0}, {5, 4}, {2, 3}};
  json range = json::array();
  for (size_t i = 0; i < what.size(); ++i) range.push_back(patterns[i]);
  return {{"field", "what"},
          {"type", "nominal"},
          {"title", nullptr},
          {"legend", dash_legend()},
          {"scale", {{"domain", what}, {"range", range}}}};
}

// Runs worth a curve: those that validate, else the longest; of a sweep of short runs none.
std::vector<const ReportRun*> with_curves(const ReportData& d) {
  std::vector<const ReportRun*> out;
  for (const ReportRun& r : d.runs)
    if (!r.run.valid.empty() || (d.runs.size() <= kCurves && r.run.steps.size() > 1)) out.push_back(&r);
  std::stable_sort(out.begin(), out.end(), [](const ReportRun* a, const ReportRun* b) {
    return a->run.steps.size() > b->run.steps.size();
  });
  if (out.size() > kCurves) out.resize(kCurves);
  return out;
}

// At most this many points of a long run: enough for the eye, and the page stays small.
size_t stride_of(size_t points) {
  return std::max<size_t>(1, points / 800);
}

std::vector<Figure> training(const ReportData& d) {
  json loss = json::array(), rmse = json::array();
  for (const ReportRun* r : with_curves(d)) {
    const auto& steps = r->run.steps;
    for (size_t i = 0; i < steps.size(); i += stride_of(steps.size()))
      if (std::isfinite(steps[i].loss))
        loss.push_back(
            {{"run", r->label}, {"what", "training"}, {"step", steps[i].step}, {"value", steps[i].loss}});
    for (const ValidRecord& v : r->run.valid) {
      const auto add = [&](json& to, const char* what, double value) {
        if (std::isfinite(value))
          to.push_back({{"run", r->label}, {"what", what}, {"step", v.step}, {"value", value}});
      };
      add(loss, "validation", v.loss);
      if (!v.rmse.empty()) add(rmse, "RMSE", v.rmse[0]);
      if (!v.persistence_rmse.empty()) add(rmse, "persistence", v.persistence_rmse[0]);
    }
  }
  std::vector<Figure> out;
  if (!loss.empty())
    out.push_back({"training-loss", "Training curve", "Loss by optimizer step; dashed: on validation data.",
                   line_spec(loss, "loss", dashes({"training", "validation"}))});
  if (!rmse.empty())
    out.push_back(
        {"skill", "Forecast error against persistence",
         "Latitude-weighted RMSE of the first channel on validation data; dashed: of the forecast that "
         "nothing changes. Below the dashed line the model has skill.",
         line_spec(rmse, "RMSE", dashes({"RMSE", "persistence"}))});
  return out;
}

std::vector<Figure> ops(const ReportData& d) {
  const ReportRun* r = ops_run(d);
  if (!r) return {};
  constexpr size_t kShown = 18;
  std::vector<OpLine> lines = op_lines(*r, true);
  if (lines.size() > kShown) lines.resize(kShown);
  json rows = json::array();
  json names = json::array();  // longest first
  bool predicted = false;
  for (const OpLine& l : lines) {
    names.push_back(l.path);
    const auto rate = [](double work, double s) {
      return s > 0 && work > 0 ? json(work / s * 1e-9) : json();
    };
    json j = {{"op", l.path},
              {"kind", l.kind},
              {"ms", l.seconds * 1e3},
              {"gflops", rate(l.flops, l.seconds)},
              {"gbytes", rate(l.bytes, l.seconds)}};
    if (std::isfinite(l.predicted_s)) {
      predicted = true;
      j["predicted"] = l.predicted_s * 1e3;
    }
    rows.push_back(j);
  }
  const json y = {{"field", "op"}, {"type", "nominal"}, {"title", nullptr}, {"sort", names}};
  json tips = {tip("op", "op"), tip("kind", "kind"), tip("ms", "measured [ms/step]", ".3~g")};
  if (predicted) tips.push_back(tip("predicted", "predicted [ms/step]", ".3~g"));
  tips.push_back(tip("gflops", "GFLOP/s", ".3~g"));
  tips.push_back(tip("gbytes", "GB/s", ".3~g"));
  json spec = base_spec(rows);
  spec["height"] = {{"step", 19}};
  spec["layer"] = json::array();
  spec["layer"].push_back(
      {{"mark", {{"type", "bar"}, {"height", {{"band", 0.75}}}}},
       {"encoding",
        {{"y", y},
         {"x", {{"field", "ms"}, {"type", "quantitative"}, {"title", "ms per step"}}},
         {"color",
          {{"field", "kind"}, {"type", "nominal"}, {"title", nullptr}, {"legend", {{"columns", 4}}}}},
         {"tooltip", tips}}}});
  if (predicted)
    spec["layer"].push_back(
        {{"mark", {{"type", "tick"}, {"color", "black"}, {"thickness", 2.5}, {"height", {{"band", 0.95}}}}},
         {"encoding",
          {{"y", y}, {"x", {{"field", "predicted"}, {"type", "quantitative"}}}, {"tooltip", tips}}}});
  return {{"ops", "Where the step goes, by op",
           "The longest ops of " + r->label + ", summed over blocks and micro-batches." +
               (predicted ? " Bar: measured; black tick: predicted." : ""),
           spec}};
}

}  // namespace

std::vector<Figure> run_figures(const ReportData& d) {
  std::vector<Figure> out = training(d);
  for (Figure& f : ops(d)) out.push_back(std::move(f));
  return out;
}

}  // namespace isobar
