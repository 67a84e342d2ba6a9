// A quantity that counts and prices make: the step's seconds (step_model.h), the peak's bytes
// (memory_model.h). The fit (campaign_fit.h) knows no more of it than this.
#pragma once
#include <cstddef>

namespace isobar {

struct PriceInfo {
  const char* name;
  double spec;       // before any measurement
  double unsure;     // log sigma of that
  double differs;    // log sigma between engines and machines
  double tuned = 0;  // log ratio of a tuned submission's to research code's (engine.h)
};

struct Sample;

struct Quantity {
  size_t prices;
  const PriceInfo* info;  // [prices]
  double misfit;          // log sigma that counts and prices leave
  double tail;            // degrees of freedom of Student's t: the fewer, the commoner are rows gone wrong
  double family;          // share of the variance between campaigns that engines of a family share
  double (*log_of)(const Sample& sample, const double* prices);  // [prices]
};
extern const Quantity kStepSeconds, kPeakBytes;

}  // namespace isobar
