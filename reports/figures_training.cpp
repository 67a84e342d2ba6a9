// Training curves: loss and skill by optimizer step.
#include <algorithm>
#include <cmath>

#include "reports/figures.h"

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
  // Points to hover over, in a layer of their own: as points of the line mark they would take the dashes out
  // of its legend.
  spec["layer"].push_back(
      {{"mark", {{"type", "point"}, {"filled", true}, {"size", few ? 25 : 60}, {"opacity", few ? 1 : 0}}},
       {"encoding",
        {{"x", x},
         {"y", y},
         {"color", {{"field", "run"}, {"type", "nominal"}}},
         {"detail", {{"field", "what"}, {"type", "nominal"}}},
         {"tooltip", tips}}}});
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

}  // namespace

std::vector<Figure> training_figures(const ReportData& d) {
  json loss = json::array(), rmse = json::array(), accuracy = json::array();
  for (const ReportRun* r : with_curves(d)) {
    const auto& steps = r->run.steps;
    for (size_t i = 0; i < steps.size(); i += stride_of(steps.size()))
      if (steps[i].loss)
        loss.push_back(
            {{"run", r->label}, {"what", "training"}, {"step", steps[i].step}, {"value", *steps[i].loss}});
    for (const ValidRecord& v : r->run.valid) {
      const auto add = [&](json& to, const char* what, double value) {
        if (std::isfinite(value))
          to.push_back({{"run", r->label}, {"what", what}, {"step", v.step}, {"value", value}});
      };
      add(loss, "validation", or_nan(v.loss));
      if (!v.rmse.empty()) add(rmse, "RMSE", v.rmse[0]);
      if (!v.persistence_rmse.empty()) add(rmse, "persistence", v.persistence_rmse[0]);
      add(accuracy, "accuracy", or_nan(v.accuracy));
      add(accuracy, "most frequent class", or_nan(v.baseline_accuracy));
    }
  }
  std::vector<Figure> out;
  if (!loss.empty())
    out.push_back({"training-loss", "Training", "Training curve",
                   "Loss by optimizer step; dashed: on validation data.",
                   line_spec(loss, "loss", dashes({"training", "validation"}))});
  if (!rmse.empty())
    out.push_back(
        {"skill", "Training", "Forecast error against persistence",
         "Latitude-weighted RMSE of the first channel on validation data; dashed: of the forecast that "
         "nothing changes. Below the dashed line the model has skill.",
         line_spec(rmse, "RMSE", dashes({"RMSE", "persistence"}))});
  if (!accuracy.empty())
    out.push_back(
        {"accuracy", "Training", "Accuracy of classes",
         "Share of validation samples whose class the net has right; dashed: of always saying the most "
         "frequent one.",
         line_spec(accuracy, "accuracy", dashes({"accuracy", "most frequent class"}))});
  return out;
}

}  // namespace isobar
