// Throughput of each layout, its scaling over ranks, its cost in memory and rank-time, and the fastest runs
// one by one.
#include <set>

#include "reports/figures/figures.h"
#include "reports/style/palette.h"

namespace isobar::report {
namespace {

using nlohmann::json;

constexpr size_t kLeading = 8;  // of the figure that leads the page

Figure throughput(const ReportData& d) {
  const bool predicted = !d.predicted().empty(), sets = d.sets.size() > 1;
  const json spec = chart_spec(
      "throughput-by-layout",
      together(run_fills(d), {{"sets", sets},
                              {"row", sets ? "row" : "layout"},
                              {"fastest", "datum.row_place <= " + std::to_string(kLeading)},
                              {"of", sets ? "set" : "layout"},
                              {"colours", sets ? palette::set_scale(d.sets) : palette::layout_scale(d)},
                              // no legend of layouts: the axis names them
                              {"legend", sets ? json{{"columns", legend_columns(d.sets)}} : json()},
                              {"shapes", palette::precision_shapes(d)}}));
  return {"throughput-by-layout", kSpeedSection, "Throughput by layout",
          std::string("Samples/s (") + title_of(d.statistic) +
              "). Full: the best run, with 80 % of its steps; hollow: other settings" +
              (predicted ? "; orange-red diamond: predicted." : ".") +
              (palette::layouts(d).size() > kLeading ? " The " + std::to_string(kLeading) + " fastest." : ""),
          spec};
}

Figure front(const ReportData& d, const ChartData& s) {
  return {
      "pareto-front", kSpeedSection, "Pareto front of time, memory and cost",
      std::string("Lower left is better; times are the ") + title_of(d.statistic) +
          ". Cost goes with time and ranks: " + s.cost_title +
          ". Outlined runs are on the Pareto front: no run is better in one of time, memory and cost without "
          "being worse in another. Drag a rectangle to pick runs in every figure.",
      chart_spec("pareto-front", together(run_fills(d, s.cost_title), layout_fills(d)))};
}

std::vector<Figure> scaling(const ReportData& d) {
  std::set<int64_t> ranks, batches;
  for (const ReportRun* r : d.ok()) {
    ranks.insert(r->run.ranks);
    batches.insert(r->run.spec.train.global_batch);
  }
  if (ranks.size() < 2) return {};
  const bool predicted = !d.predicted().empty(), sets = d.sets.size() > 1;
  const json spec = chart_spec("scaling", {{"set", sets ? json("set") : kLeftOut},
                                           {"line_of", sets ? "set" : "amp"},
                                           {"precisions", palette::scale_of(palette::precisions(d))},
                                           {"predicted", predicted}});
  return {{"scaling", kSpeedSection, batches.size() > 1 ? "Scaling" : "Strong scaling",
           std::string("The fastest run of each number of ranks (") + title_of(d.statistic) + ")" +
               (batches.size() > 1 ? "" : ", all with the same global batch") +
               ". Solid: measured, with a bar of 80 % of its steps; " +
               (predicted ? "dashed: predicted for the same run; " : "") +
               "dotted: if every rank added as much as the first.",
           spec}};
}

Figure by_layout(const ReportData& d) {
  const bool predicted = !d.predicted().empty();
  return {"step-by-run", kSpeedSection, "Step time of each layout's fastest run",
          std::string("Bar: measured (") + title_of(d.statistic) +
              "); the line on it spans the middle 80 % of the steps." +
              (predicted ? " Orange-red: predicted, with its 80 % interval." : "") +
              " All runs are in the table below.",
          chart_spec("step-by-run", together(run_fills(d), {{"layouts", palette::layout_scale(d)}}))};
}

}  // namespace

std::vector<Figure> speed_figures(const ReportData& d, const ChartData& s) {
  if (d.ok().empty()) return {};
  std::vector<Figure> out = {throughput(d)};
  if (s.rows.size() > 2) out.push_back(front(d, s));
  for (Figure& f : scaling(d)) out.push_back(std::move(f));
  out.push_back(by_layout(d));
  return out;
}

}  // namespace isobar::report
