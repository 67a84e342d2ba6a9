// The mean of fields, of each hour of the day apart where hours are known: what an anomaly is taken from, and
// the forecast that knows nothing of the day.
//
//   Climatology usual(channels * H * W);
//   usual.add(hours, field);   …   usual.finish();
//   usual.at(hours)            // of that hour of the day
#pragma once
#include <cstdint>
#include <map>
#include <vector>

namespace isobar {

class Climatology {
 public:
  explicit Climatology(int64_t numbers) : numbers_(numbers) {}
  /// `hours` since 1970 (UTC), NaN: not known; then all are one.
  /// NaN is missing, and left out.
  void add(double hours, const float* field);
  /// After the last field
  void finish();
  /// null: no field of that hour was added
  const float* at(double hours) const;

 private:
  struct Mean {
    std::vector<double> sum;
    std::vector<int32_t> missing;  // fields, by point; {}: none of any
    std::vector<float> mean;
    int64_t fields = 0;
  };
  int64_t numbers_;
  std::map<int64_t, Mean> by_hour_;
};

}  // namespace isobar
