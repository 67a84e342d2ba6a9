#include <algorithm>

#include "reports/tables/report_tables.h"

namespace isobar::report {

std::optional<Table> ranks_table(const ReportData& d) {
  const ReportRun* best = d.best();
  if (!best || best->run.ranks_record.ranks.empty()) return std::nullopt;
  const records::RanksRecord& record = best->run.ranks_record;
  if (record.ranks.size() == 1 && !record.joules_per_step) return std::nullopt;
  Table t{"ranks",
          "Ranks of " + best->label,
          {number_column("rank"), text_column("host"), number_column("compute", "ms"),
           number_column("data", "ms"), number_column("other", "ms"), number_column("memory", "MB"),
           number_column("clock", "MHz"), number_column("power", "W")}};
  const bool gpus = std::any_of(record.ranks.begin(), record.ranks.end(),
                                [](const records::RankRecord& r) { return r.busy.has_value(); });
  if (gpus)
    for (Column& c : std::vector<Column>{number_column("busy", "%"), number_column("hottest", "C"),
                                         number_column("PCIe in", "MB/s"), number_column("PCIe out", "MB/s")})
      t.columns.push_back(std::move(c));
  for (const records::RankRecord& r : record.ranks) {
    t.rows.push_back({integer(r.rank), text(r.host), significant(1e3 * records::or_nan(r.compute_s), 4),
                      significant(1e3 * r.data_wait_s, 3), significant(1e3 * records::or_nan(r.other_s()), 3),
                      number(1e-6 * static_cast<double>(r.peak_rss_bytes), 1),
                      number(records::or_nan(r.mhz), 0), significant(records::or_nan(r.watts), 3)});
    if (!gpus) continue;
    for (Cell& c :
         std::vector<Cell>{number(100 * records::or_nan(r.busy), 0), number(records::or_nan(r.celsius), 0),
                           number(1e-6 * records::or_nan(r.pcie_in_bytes_s), 1),
                           number(1e-6 * records::or_nan(r.pcie_out_bytes_s), 1)})
      t.rows.back().push_back(std::move(c));
  }
  t.note =
      "means of a step, after warm-up; compute: in ops; data: waiting for it; other: waiting for other "
      "ranks, and what the executor takes. A rank that computes longer than the others holds them up";
  if (record.joules_per_step)
    t.note += ". Energy: " + significant(best->run.joules_per_sample(), 4).text + " J a sample (" +
              *record.energy + ", whatever else ran there)";
  else if (record.energy)
    t.note += ". Energy was not metered: " + *record.energy;
  return t;
}

}  // namespace isobar::report
