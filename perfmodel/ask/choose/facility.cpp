#include "perfmodel/ask/choose/facility.h"

#include <cmath>

namespace isobar::perf {

Allocation allocation_of(const Facility& f, const Scheduled& s) {
  constexpr double kHours = 24;  // of a day
  const int64_t nodes = (s.choice.ranks() + f.ranks_per_node - 1) / f.ranks_per_node;
  const double part = f.shares_nodes
                          ? static_cast<double>(s.choice.ranks()) / static_cast<double>(f.ranks_per_node)
                          : static_cast<double>(nodes);
  const Known hours = s.training.days.scaled(kHours), node_hours = hours.scaled(part);
  const auto jobs = [&](double h) { return std::ceil(3600 * h / f.max_time_s); };
  return {.nodes = nodes,
          .node_hours = node_hours,
          .charged = node_hours.scaled(f.charge),
          .jobs = {jobs(hours.value), jobs(hours.lower), jobs(hours.upper)}};
}

}  // namespace isobar::perf
