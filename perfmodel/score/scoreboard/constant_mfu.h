// The plainest prediction there is, printed beside the model's: a constant MFU, the median over other
// campaigns of their median, of the same chip and precision; without such, of the same precision, or of all.
//
//   ConstantMfu usual(samples_of_others);
//   usual.seconds(run)                     // of a step
#pragma once
#include <map>
#include <string>

#include "perfmodel/score/prices/sample.h"

namespace isobar::perf {

class ConstantMfu {
 public:
  ConstantMfu() = default;
  explicit ConstantMfu(const Samples& others);
  /// 0: there are no other runs.
  double seconds(const PublishedRun& run) const;

 private:
  std::map<std::string, double> by_key_;
};

}  // namespace isobar::perf
