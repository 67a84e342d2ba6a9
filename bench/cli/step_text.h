// What `isobar predict` says of a step, on cores and on accelerators alike.
//
//   StepText s = text_of(prediction);
//   print_step(s);                       // the terms, their sum with its interval
//   nlohmann::json j = json_of(s);       // the same for machines
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "perfmodel/step/checkpoint.h"
#include "perfmodel/term.h"

namespace isobar {

struct StepText {
  double step_s, lower, upper, ceiling_s,
      samples_per_s;  // 80 % interval; no machine of these peaks is faster
  double correction;  // by which fitted runs deviate from the terms
  const std::vector<Term>& terms;
  const CheckpointCost& checkpoint;
  const std::vector<std::string>& warnings;
};

/// Seconds or, of short steps, milliseconds: what the columns of a step are printed in.
struct TimeUnit {
  double per_second;
  const char* name;
};
TimeUnit unit_of(double step_s);

void print_step(const StepText& s);
nlohmann::json json_of(const StepText& s);

}  // namespace isobar
