#include "reports/answers/proposal_text.h"

#include "model/base/text/printed.h"
#include "reports/answers/training_text.h"

namespace isobar::report {

std::string proposal_text(const perf::Facility& f, const perf::Scheduled& s) {
  const perf::Allocation a = perf::allocation_of(f, s);
  std::string out = printed("For a proposal: %ld node%s of %s (%ld accelerators) for %s days, ", a.nodes,
                            a.nodes == 1 ? "" : "s", s.choice.machine.name.c_str(), s.choice.ranks(),
                            with_interval(s.training.days).c_str()) +
                    with_interval_of_amount(a.node_hours) + " node-hours";
  if (f.charge != 1)
    out += ", charged " + with_interval_of_amount(a.charged) + printed(" at %.3g a node-hour", f.charge);
  out += printed(", in %.0f jobs (%.0f to %.0f) of at most %.3g h that each resume from the last checkpoint",
                 a.jobs.value, a.jobs.lower, a.jobs.upper, f.max_time_s / 3600);
  if (f.max_nodes > 0 && a.nodes > f.max_nodes)
    out += printed("; a job there has at most %ld nodes (cluster.max_nodes)", f.max_nodes);
  return out + ".";
}

Table scaling_table(const perf::Facility& f, const std::vector<perf::Scheduled>& rows) {
  Table t{.id = "scaling",
          .title = "Scaling of the training",
          .columns = {number_column("nodes"), number_column("GPUs"), number_column("batch"),
                      number_column("step", "s"), number_column("speedup"), number_column("efficiency", "%"),
                      text_column("days"), text_column("node-hours"), number_column("jobs")},
          .note =
              "Strong scaling of predicted samples a second against the first row, each with its best "
              "layout. In brackets 80 % intervals."};
  const auto rate = [](const perf::Scheduled& s) { return s.choice.samples_per_s().value; };
  for (const perf::Scheduled& s : rows) {
    const perf::Allocation a = perf::allocation_of(f, s);
    const double speedup = rate(s) / rate(rows[0]),
                 more = static_cast<double>(s.choice.ranks()) / static_cast<double>(rows[0].choice.ranks());
    t.rows.push_back({integer(a.nodes), integer(s.choice.ranks()), integer(s.choice.spec.train.global_batch),
                      significant(s.choice.step.value, 3), significant(speedup, 3),
                      number(100 * speedup / more, 0), text(with_interval(s.training.days)),
                      text(with_interval_of_amount(a.node_hours)),
                      integer(static_cast<int64_t>(a.jobs.value))});
  }
  return t;
}

}  // namespace isobar::report
