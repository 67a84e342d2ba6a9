// A published run, or a collective, for the fits: counts to price, features of its layout, the measurement,
// and groups for holding out.
//
//   Sample s = sample_of(table.runs[0]);
//   kStepSeconds.log_value(s, log_prices) - s.log_s     // log error of these prices
#pragma once
#include <Eigen/Core>
#include <map>
#include <string>
#include <vector>

#include "perfmodel/score/counts/collective_model.h"
#include "perfmodel/score/counts/memory_model.h"
#include "perfmodel/score/counts/step_model.h"

namespace isobar::perf {

struct Sample {
  const PublishedRun* run = nullptr;  // null: a collective
  std::string id, campaign;
  double nodes = 1;
  /// Its group by level, for shared deviations and holding out: "" (repetitions), "layout", "model", "gpus",
  /// "precision", "machine", "source", "section".
  std::map<std::string, std::string> values;
  StepCounts counts;
  Eigen::VectorXd features;  // of the Gaussian process
  double log_s = 0;          // log of the measurement
  int bound = 0;             // +1: the truth is larger (it did not fit), -1: smaller (it fitted)
  MemoryCounts memory;
  CollectiveTraffic traffic;
};
Sample sample_of(const PublishedRun& run);
/// Its memory: the reading if there is one, else the capacity as a bound.
Sample memory_sample_of(const PublishedRun& run);
using Samples = std::vector<const Sample*>;
/// At most `most` rows, evenly spread.
Samples thin(const Samples& rows, size_t most);

}  // namespace isobar::perf
