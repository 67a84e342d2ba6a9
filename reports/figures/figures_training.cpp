// Training curves: loss and skill by optimizer step.
#include <algorithm>
#include <cmath>
#include <optional>

#include "reports/figures/figures.h"
#include "reports/style/palette.h"

namespace isobar::report {
namespace {

using nlohmann::json;

constexpr size_t kCurves = 6;  // most runs drawn: more curves are hard to distinguish

json line_spec(json rows, const std::string& y_title, const std::vector<std::string>& what,
               const json& scale) {
  const json patterns = {{1, 0}, {5, 4}, {2, 3}};
  const bool few = rows.size() <= 80;
  json dashes = json::array();
  for (size_t i = 0; i < what.size(); ++i) dashes.push_back(patterns[i]);
  return chart_spec("training", {{"rows", std::move(rows)},
                                 {"title", y_title},
                                 {"runs", scale},
                                 {"curves", what},
                                 {"dashes", dashes},
                                 {"dot", few ? 25 : 60},
                                 {"visible", few ? 1 : 0}});
}

// Runs whose curves are drawn, longest first: those that validate, and in a report of few runs all with more
// than one step.
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

// Keeps the number of points near 800, enough for the eye, so that the page stays small.
size_t stride_of(size_t points) {
  return std::max<size_t>(1, points / 800);
}

// Rows of a figure; values that are not finite are dropped.
struct Curves {
  json rows = json::array();
  void add(const ReportRun& r, const char* what, int64_t step, const std::optional<double>& value) {
    if (value && std::isfinite(*value))
      rows.push_back({{"run", r.label}, {"what", what}, {"step", step}, {"value", *value}});
  }
};

}  // namespace

std::vector<Figure> training_figures(const ReportData& d) {
  Curves loss, rmse, accuracy, perplexity, norm, condition;
  std::vector<std::string> labels;
  for (const ReportRun* run : with_curves(d)) labels.push_back(run->label);
  const json scale = palette::run_scale(labels);
  for (const ReportRun* run : with_curves(d)) {
    const ReportRun& r = *run;
    const auto& steps = r.run.steps;
    for (size_t i = 0; i < steps.size(); i += stride_of(steps.size())) {
      loss.add(r, "training", steps[i].step, steps[i].loss);
      accuracy.add(r, "training", steps[i].step, steps[i].accuracy);
    }
    for (const records::ValidRecord& v : r.run.valid) {
      loss.add(r, "validation", v.step, v.loss);
      if (!v.rmse.empty()) rmse.add(r, "RMSE", v.step, v.rmse[0]);
      if (!v.persistence_rmse.empty()) rmse.add(r, "persistence", v.step, v.persistence_rmse[0]);
      accuracy.add(r, "validation", v.step, v.accuracy);
      accuracy.add(r, "most frequent class", v.step, v.baseline_accuracy);
      perplexity.add(r, "validation", v.step, v.perplexity);
      if (!v.jacobian) continue;
      norm.add(r, "Frobenius norm", v.step, v.jacobian->frobenius);
      condition.add(r, "condition number", v.step, v.jacobian->condition);
    }
  }
  std::vector<Figure> out;
  const auto draw = [&](const Curves& curves, const char* id, const char* title, const char* caption,
                        const char* y_title, const std::vector<std::string>& what) {
    if (!curves.rows.empty())
      out.push_back({id, "Training", title, caption, line_spec(curves.rows, y_title, what, scale)});
  };
  draw(loss, "training-loss", "Training curve", "Loss by optimizer step; dashed: on validation data.", "loss",
       {"training", "validation"});
  draw(rmse, "skill", "Forecast error against persistence",
       "Latitude-weighted RMSE of the first channel on validation data; dashed: persistence, "
       "the forecast that nothing changes. Below the dashed line the model has skill.",
       "RMSE", {"RMSE", "persistence"});
  draw(accuracy, "accuracy", "Accuracy of classes",
       "Share of samples classified correctly, by optimizer step; dashed: on validation samples; "
       "dotted: always predicting the most frequent class.",
       "accuracy", {"training", "validation", "most frequent class"});
  draw(perplexity, "perplexity", "Perplexity",
       "Exponential of the mean loss of a word on validation data, by optimizer step: the number of equally "
       "likely words that would be as hard to predict.",
       "perplexity", {"validation"});
  draw(norm, "jacobian-norm", "Norm of the Jacobian",
       "Frobenius norm of d(output)/d(input), both normalised, mean over validation samples. When it "
       "is constant the net's derivatives have converged; train.jacobian_window ends a run there.",
       "norm", {"Frobenius norm"});
  draw(condition, "jacobian-condition", "Condition number of the Jacobian",
       "Largest over smallest singular value of d(output)/d(input), mean over validation samples: 1 if "
       "all output directions are equally sensitive (always with one output). Not drawn if one is 0.",
       "condition number", {"condition number"});
  return out;
}

}  // namespace isobar::report
