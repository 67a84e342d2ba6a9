// What a whole training takes: days, price and energy with their intervals, what failures cost of it, and
// which number of accelerators makes a deadline or a budget.
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
  Known days, gpu_hours, price, kwh;  // price, kwh: 0 where the machine file says none
  double mtbf_hours = 0;              // of the whole job
  double every_s = 0, useful = 1;     // perfmodel/failures.h; on cores nothing is said to fail
  std::string assumed;                // of failures and storage, what the machine file does not say
};
bool has_training(const LayoutQuestion& q);
Training training_of(const LayoutChoice& c, const LayoutQuestion& q);
/// "the whole training: 41 days (31 to 55), …" for people
std::string text_of(const Training& t, const Machine& m);
nlohmann::json json_of(const Training& t);

struct Scheduled {
  LayoutChoice choice;
  Training training;
  double in_time = 1, in_budget = 1;  // chances; 1 where none is asked for
  double both() const { return in_time < in_budget ? in_time : in_budget; }
};
/// The best layout of each number, fewest accelerators first: of question.gpus or, where it has none, of
/// doublings from one host on until a deadline is made 9 times in 10, and of the eighths below that one.
/// Numbers without an answer are left out, and said where they were asked for; throws DoesNotFit where there
/// is none at all.
std::vector<Scheduled> schedule(const Chooser& chooser, const RunSpec& spec, const LayoutQuestion& q);
Table schedule_table(const std::vector<Scheduled>& all, const LayoutQuestion& q);
/// "fewest that make it more likely than not: 512 …"
std::string verdict(const std::vector<Scheduled>& all, const LayoutQuestion& q);

}  // namespace isobar
