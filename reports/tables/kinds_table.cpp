// Ops of a GPU's run by kind, beside the least time that the card allows.
#include <algorithm>
#include <map>

#include "reports/style/units.h"
#include "reports/tables/report_tables.h"

namespace isobar::report {
namespace {

struct Kind {
  double count = 0, seconds = 0;      // per step
  double by_flops = 0, by_bytes = 0;  // least seconds
  double least = 0;                   // the later of both, op by op
  double lost() const { return std::max(0.0, seconds - least); }
};

}  // namespace

Table kinds_table(const ReportData& d, const ReportRun& r) {
  Table t{"op_kinds",
          "Where the step of " + r.label + " is lost",
          {text_column("kind"), number_column("calls", "/step"), number_column("measured", "ms/step"),
           number_column("least by FLOPs", "ms"), number_column("least by bytes", "ms"),
           number_column("lost", "ms"), number_column("lost", "% of step")}};
  if (!d.predictor || perf::device_of(*d.predictor) != perf::Device::accelerator) return t;
  const Roof roof = roof_of(r, *d.predictor);
  std::map<std::string, Kind> kinds;
  for (const OpLine& l : op_lines(d, r, false)) {
    if (l.lane != "compute") continue;  // the card's rates say nothing of links
    Kind& k = kinds[l.kind];
    k.count += l.count;
    k.seconds += l.seconds;
    k.by_flops += Roof{roof.flops, 0}.seconds(l.flops, 0);
    k.by_bytes += Roof{0, roof.bytes}.seconds(0, l.bytes);
    k.least += roof.seconds(l.flops, l.bytes);
  }
  std::vector<std::pair<std::string, Kind>> rows(kinds.begin(), kinds.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.lost() > b.second.lost(); });
  Kind all;
  for (const auto& [name, k] : rows) {
    t.rows.push_back({text(name), significant(k.count, 3), significant(k.seconds * kMs, 3),
                      significant(k.by_flops * kMs, 3), significant(k.by_bytes * kMs, 3),
                      significant(k.lost() * kMs, 3),
                      number(r.measured() > 0 ? 100 * k.lost() / r.measured() : kNaN, 1)});
    all.seconds += k.seconds;
    all.least += k.least;
  }
  if (rows.empty()) return t;
  const double between = std::max(0.0, r.measured() - all.seconds);
  t.rows.push_back({text("between ops"), number(kNaN, 0), significant(between * kMs, 3), number(kNaN, 0),
                    number(kNaN, 0), significant(between * kMs, 3),
                    number(r.measured() > 0 ? 100 * between / r.measured() : kNaN, 1)});
  t.note =
      "least: the machine's peak FLOP/s and its memory bandwidth, each alone; lost: what the measured time "
      "is above "
      "the later of both, op by op; between ops: what no op on the compute lane accounts for";
  return t;
}

}  // namespace isobar::report
