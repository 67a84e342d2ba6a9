// The ops of one run: share of step time, and efficiency against the machine's roofline.
#include <algorithm>
#include <cmath>

#include "reports/figures/figures.h"
#include "reports/style/palette.h"
#include "reports/tables/report_tables.h"

namespace isobar::report {
namespace {

using nlohmann::json;

constexpr const char* kOpsSection = "Where the time goes";

// The colours of the classes in `rows`, and the columns of their legend.
Fills class_colours(const json& rows, size_t axis_letters) {
  const std::vector<std::string> classes = classes_in(rows);
  return {{"classes", palette::scale_of(classes)}, {"columns", legend_columns(classes, axis_letters)}};
}

Figure longest(const ReportRun& r, std::vector<OpLine> lines) {
  constexpr size_t kShown = 18;
  if (lines.size() > kShown) lines.resize(kShown);
  json rows = json::array(), names = json::array();  // longest first
  bool predicted = false;
  for (const OpLine& l : lines) {
    names.push_back(l.path);
    json j = {{"op", l.path},
              {"kind", l.kind},
              {"class", palette::class_of_op(l.kind, l.lane)},
              {"ms", l.seconds * 1e3}};
    if (l.flops > 0) j["gflops"] = rounded(l.flops / l.seconds * 1e-9);
    if (l.bytes > 0) j["gbytes"] = rounded(l.bytes / l.seconds * 1e-9);
    if (std::isfinite(l.efficiency)) j["efficiency"] = rounded(l.efficiency);
    if (std::isfinite(l.predicted_s)) j["predicted"] = rounded(l.predicted_s * 1e3);
    predicted = predicted || std::isfinite(l.predicted_s);
    rows.push_back(j);
  }
  size_t letters = 0;
  for (const OpLine& l : lines) letters = std::max(letters, l.path.size());
  json spec = chart_spec("ops", together(class_colours(rows, letters),
                                         {{"rows", rows}, {"names", names}, {"predicted", predicted}}));
  return {"ops", kOpsSection, "Longest ops",
          "Ops of " + r.label + ", the fastest run, summed over blocks and micro-batches." +
              (predicted ? " Bar: measured; orange-red tick: predicted." : ""),
          spec};
}

std::vector<Figure> roofline(const ReportRun& r, const std::vector<OpLine>& lines, const perf::Machine& m) {
  const Roof roof = roof_of(r, m);
  if (!(roof.flops > 0 && roof.bytes > 0)) return {};
  json rows = json::array();
  double low = INFINITY, high = 0;
  for (const OpLine& l : lines) {
    if (!(l.flops > 0 && l.bytes > 0 && l.seconds > 0)) continue;
    const double intensity = l.flops / l.bytes;
    low = std::min(low, intensity);
    high = std::max(high, intensity);
    rows.push_back({{"op", l.path},
                    {"kind", l.kind},
                    {"class", palette::class_of_op(l.kind, l.lane)},
                    {"intensity", rounded(intensity)},
                    {"gflops", rounded(l.flops / l.seconds * 1e-9)},
                    {"ms", rounded(l.seconds * 1e3)},
                    {"efficiency", rounded(l.efficiency)}});
  }
  if (rows.empty()) return {};
  const double ridge = roof.flops / roof.bytes;  // ridge point, FLOP/B: below it memory-bound
  low = std::min(low, ridge) * 0.6;
  high = std::max(high, ridge) * 1.6;
  json lines_of_roof = json::array();
  for (const double at : {low, ridge, high})
    lines_of_roof.push_back({{"intensity", at}, {"gflops", std::min(roof.flops, at * roof.bytes) * 1e-9}});
  json spec = chart_spec("roofline",
                         together(class_colours(rows, 6),
                                  {{"rows", rows}, {"roof", lines_of_roof}, {"intensities", {low, high}}}));
  return {
      {"roofline", kOpsSection, "Roofline of the ops",
       "Grey line: the roofline of one rank, from the machine file: its peak FLOP/s and its share of memory "
       "bandwidth. Ops near the line run at the machine's limit; large dots far below it have the most to "
       "gain. Ops whose data is in cache may be above the slope. Area: time per step.",
       spec}};
}

}  // namespace

std::vector<Figure> op_figures(const ReportData& d) {
  const ReportRun* r = ops_run(d);
  if (!r) return {};
  const std::vector<OpLine> lines = op_lines(d, *r, true);
  std::vector<Figure> out = {longest(*r, lines)};
  if (d.predictor)
    for (Figure& f : roofline(*r, lines, *d.predictor)) out.push_back(std::move(f));
  return out;
}

}  // namespace isobar::report
