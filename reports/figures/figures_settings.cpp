// Effect of single settings: throughput against one setting with all others fixed.
#include <string>
#include <vector>

#include "reports/figures/figures.h"

namespace isobar::report {
namespace {

using nlohmann::json;

struct VariedKey {
  const char *key, *field, *id, *title, *x, *caption;
  const char *with, *what;  // `with`: the setting's first value in words, "with 0 loader workers"
};

std::vector<Figure> curve(const ReportData& d, const VariedKey& s) {
  const std::vector<std::string> values = values_of(d, s.key);
  if (values.size() < 2) return {};
  const std::string first = precision_name(values[0]);
  const bool predicted = !d.predicted().empty();
  const std::string gain = std::string("gain_") + s.field;
  const bool words = std::string(s.field) == "amp";  // which have no order of their own
  json spec = chart_spec("setting",
                         together(together(run_fills(d), layout_fills(d)),
                                  {{"field", s.field},
                                   {"title", s.x},
                                   {"order", words ? json{"fp32", "tf32", "fp16", "bf16", "fp8"} : kLeftOut},
                                   {"gain", gain},
                                   {"predicted_gain", "predicted_" + gain},
                                   {"line", std::string("line_") + s.field}}));
  return {{s.id, "Effect of the settings", s.title,
           std::string("100 % is the rate (") + title_of(d.statistic) + ") of the same run " + s.with +
               first + s.what +
               ". A thin line joins runs that differ in this setting alone; thick: the median of a layout" +
               (predicted ? ", dashed as predicted. " : ". ") + s.caption,
           spec}};
}

constexpr VariedKey kSettings[] = {
    {"data.workers", "workers", "loader-workers", "Loader workers", "loader workers",
     "Workers read and decode beside training; with 0 the training thread reads.", "with ",
     " loader workers"},
    {"policy.amp", "amp", "precision", "Precision (AMP)", "precision", "fp32: no mixed precision.", "in ",
     ""},
    {"policy.micro_batch", "micro_batch", "micro-batch", "Micro-batch", "samples per micro-batch", "",
     "with a micro-batch of ", ""}};

}  // namespace

std::vector<Figure> setting_figures(const ReportData& d) {
  std::vector<Figure> out;
  for (const VariedKey& s : kSettings)
    for (Figure& f : curve(d, s)) out.push_back(std::move(f));
  return out;
}

}  // namespace isobar::report
