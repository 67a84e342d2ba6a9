// Figures of a whole training: days, price and energy with their intervals, the share lost to failures, and
// the number of accelerators that meets a deadline or a budget.
//
//   const Training t = training_of(choice, question);    // t.days, t.price, t.kwh: all with failures counted
//   schedule(chooser, spec, question)                    // the table of numbers, the fewest marked
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/cli/choice.h"
#include "reports/tables.h"

namespace isobar {

struct Training {
  Interval days, gpu_hours, price, kwh;  // price, kwh: 0 where the machine file has none
  double mtbf_hours = 0;              // of the whole job
  double every_s = 0, useful = 1;     // perfmodel/failures.h; cores are assumed not to fail
  std::string assumed;                // failures and storage that the machine file does not give
};
bool has_training(const LayoutQuestion& q);
Training training_of(const LayoutChoice& c, const LayoutQuestion& q);
/// "the whole training: 41 days (31 to 55), …" for people
std::string text_of(const Training& t, const Machine& m);
nlohmann::json json_of(const Training& t);

struct Scheduled {
  LayoutChoice choice;
  Training training;
  double in_time = 1, in_budget = 1;  // chances; 1 without a limit
  double both() const { return in_time < in_budget ? in_time : in_budget; }
};
/// The best layout of each number of accelerators, fewest first. Without question.gpus the numbers are
/// doublings from one host until a deadline is met 9 times in 10, and the eighths below the last. Numbers
/// without an answer are left out, and reported where they were asked for; throws DoesNotFit where none has
/// one.
std::vector<Scheduled> schedule(const Chooser& chooser, const RunSpec& spec, const LayoutQuestion& q);
Table schedule_table(const std::vector<Scheduled>& all, const LayoutQuestion& q);
/// "fewest that make it more likely than not: 512 …"
std::string verdict(const std::vector<Scheduled>& all, const LayoutQuestion& q);

}  // namespace isobar
