// A quantity that is counts times prices: the step's seconds (step_model.h), the peak's bytes
// (memory_model.h). The fit (campaign_fit.h) sees only this.
#pragma once
#include <cstddef>
#include <string>

#include "model/base/text/rounded.h"

namespace isobar::perf {

struct PriceInfo {
  const char* name;
  double spec;       // before any measurement
  double unsure;     // its log sigma
  double differs;    // log sigma between engines and machines
  double tuned = 0;  // log ratio of a tuned submission's to research code's (engine.h)
};

struct Sample;

struct Quantity {
  size_t prices;
  const PriceInfo* info;  // [prices]
  double misfit;          // log sigma that counts and prices leave
  double tail;            // degrees of freedom of Student's t: fewer for more outliers
  double family;          // share of the variance between campaigns that is common to an engine family
  double (*log_of)(const Sample& sample, const double* prices);  // [prices]
};
extern const Quantity kStepSeconds, kPeakBytes;

/// A prediction with its interval.
struct Estimated : Known {
  /// The new value that widens the interval most ("campaign", "model", ...; "": none), and its share of the
  /// variance.
  std::string news{};
  double share = 0;
};

}  // namespace isobar::perf
