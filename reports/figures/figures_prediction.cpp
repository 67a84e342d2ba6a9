// Quality of predictions: predicted against measured, error by layout, and the terms of each prediction.
#include <algorithm>
#include <cmath>

#include "reports/figures/figures.h"
#include "reports/style/palette.h"

namespace isobar::report {
namespace {

using nlohmann::json;

constexpr const char* kSection = "Accuracy of the predictions";

// Fills that the charts of errors share.
Fills error_fills(const ReportData& d) {
  return together(run_fills(d), {{"was", palette::scale_of({"held out", "in the fit"})}});
}

Figure scatter(const ReportData& d) {
  double low = INFINITY, high = 0;
  for (const ReportRun* r : d.predicted()) {
    low = std::min({low, r->measured_lower(), r->prediction->lower});
    high = std::max({high, r->measured_upper(), r->prediction->upper});
  }
  low *= 1e3 * 0.95;
  high *= 1e3 * 1.05;
  const bool logarithmic = high > 8 * low;
  if (!logarithmic) low = 0;
  const json scale = {{"domain", {low, high}}, {"nice", false}, {"type", logarithmic ? "log" : "linear"}};
  const auto off_by = [&](double factor) {
    const double from = std::max(low, low / factor), to = std::min(high, high / factor);
    return json{{{"v", from}, {"p", factor * from}}, {{"v", to}, {"p", factor * to}}};
  };
  json spec =
      chart_spec("predicted-measured", together(error_fills(d), {{"scale", scale},
                                                                 {"ends", {{{"v", low}}, {{"v", high}}}},
                                                                 {"above", off_by(1.1)},
                                                                 {"below", off_by(1 / 1.1)}}));
  return {
      "predicted-measured", kSection, "Predicted against measured step time",
      std::string("One point per run (") + title_of(d.statistic) +
          "). Bars: 80 % intervals. Dashed: both agree; thin: 10 % off. Only held-out runs, which the fit "
          "did not use, test it.",
      spec};
}

Figure residuals(const ReportData& d) {
  return {"residuals", kSection, "Errors by layout",
          std::string("One dot per run (") + title_of(d.statistic) +
              "), tick: their median. Dots all on one side of zero: a bias of the model for that layout; on "
              "both sides: scatter.",
          chart_spec("residuals", error_fills(d))};
}

Figure by_term(const ReportData& d, const ChartData& s) {
  return {"step-by-term", "Where the time goes", "Predicted step time by term",
          "Each bar is the predicted step of a layout's fastest run, split into its terms; the tick is the "
          "measured step (" +
              std::string(title_of(d.statistic)) + ").",
          chart_spec("step-by-term", together(parts_of(s, s.terms), run_fills(d)))};
}

}  // namespace

std::vector<Figure> prediction_figures(const ReportData& d, const ChartData& s) {
  std::vector<Figure> out;
  if (d.predicted().empty()) return out;
  out.push_back(scatter(d));
  if (d.predicted().size() > 1) out.push_back(residuals(d));
  if (!s.terms.empty()) out.push_back(by_term(d, s));
  return out;
}

}  // namespace isobar::report
