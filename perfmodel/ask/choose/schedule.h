// Figures of a whole training: days, price and energy with their intervals, the share lost to failures, and
// the number of accelerators that meets a deadline or a budget.
//
//   const Training t = training_of(choice, question);    // t.days, t.price, t.kwh: all with failures counted
//   schedule(chooser, spec, question, none)              // one for each number of accelerators
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "perfmodel/ask/choose/choice.h"

namespace isobar::perf {

struct Training {
  Known days, gpu_hours, price, kwh;  // price, kwh: 0 where the machine file has none
  double mtbf_hours = 0;              // of the whole job
  double every_s = 0, useful = 1;     // best_interval, useful_share; cores are assumed not to fail
  std::string assumed;                // failures and storage that the machine file does not give
};
Training training_of(const LayoutChoice& c, const LayoutQuestion& q);

struct Scheduled {
  LayoutChoice choice;
  Training training;
  double in_time = 1, in_budget = 1;  // chances; 1 without a limit
  double both() const { return in_time < in_budget ? in_time : in_budget; }
};
/// The best layout of each number of accelerators, fewest first. Without question.gpus the numbers are
/// doublings from one host until a deadline is met 9 times in 10, and the eighths below the last. Numbers of
/// the question without an answer go to `none`; where no number has one, that of the first is thrown.
std::vector<Scheduled> schedule(const Chooser& chooser, const RunSpec& spec, const LayoutQuestion& q,
                                std::vector<NoAnswer>& none);
/// The rows of one or more machines that no other row beats in both days and price.
std::vector<Scheduled> worth_it(const std::vector<Scheduled>& all);
inline constexpr double kSure = 0.9;  // "9 times in 10"
/// The cheapest row of those that keep both limits 9 times in 10, without prices that of the fewest
/// accelerators; where there are none, the likeliest to keep them.
const Scheduled& advised(const std::vector<Scheduled>& all);

/// The useful share of a long training's time, work over wall time, where a checkpoint is written after each
/// `every_s` of work: Daly 2006 (Future Generation Computer Systems 22(3)), eq. 20, with random failures,
/// also during checkpoints and restarts.
double useful_share(double mtbf_s, double checkpoint_s, double restart_s, double every_s);
/// The work between two checkpoints that makes it largest: Young 1974 (Comm. ACM 17(9)) sqrt(2 c M), Daly
/// 2006 the higher-order optimum, eq. 37. Throws std::invalid_argument unless both are above 0.
double best_interval(double mtbf_s, double checkpoint_s);

/// Limits and charge of a computing facility, from the `cluster:` section of a machine file.
struct Facility {
  int64_t ranks_per_node = 1, max_nodes = 0;  // max_nodes: of a job; 0: as many as there are
  double max_time_s = 0;                      // of a job
  double charge = 1;                          // of a node and hour
  bool shares_nodes = false;                  // jobs are charged for their ranks' part of a node
};

struct Allocation {
  int64_t nodes = 0;
  Known node_hours, charged, jobs;  // jobs: one after the other, each within the limit
};
/// The nodes, node-hours, charge and jobs that a training needs there.
Allocation allocation_of(const Facility& f, const Scheduled& s);

}  // namespace isobar::perf
