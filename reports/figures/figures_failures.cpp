// Runs that did not finish: number of failures by layout and class.
#include <algorithm>

#include "reports/figures/figures.h"
#include "reports/style/palette.h"

namespace isobar::report {

using nlohmann::json;

std::vector<Figure> failure_figures(const ReportData& d) {
  json rows = json::array();
  for (const ReportRun* r : d.failed()) {
    const bool ok = r->run.run_class == records::RunClass::ok;
    rows.push_back({{"run", r->label},
                    {"layout", r->layout},
                    {"class", ok ? "ok, untimed" : records::name_of(r->run.run_class)},
                    {"message", r->run.message},
                    {"id", r->run.id}});
  }
  if (rows.empty()) return {};
  std::map<std::string, int> counts;
  int most = 0;
  for (const json& row : rows) most = std::max(most, ++counts[row["layout"].get<std::string>()]);
  return {{"failures", "Failures", "Runs that did not finish, by layout",
           "Number of runs by class of failure; the table of failed runs gives each reason.",
           chart_spec("failures", {{"rows", rows},
                                   {"classes", palette::scale_of(classes_in(rows))},
                                   {"ticks", std::min(most, 8)}})}};
}

}  // namespace isobar::report
