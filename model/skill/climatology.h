// The mean of fields, for each hour of the day if hours are known: the reference of anomalies, and a baseline
// forecast.
//
//   Climatology usual(channels * H * W);
//   usual.add(hours, field);   …   usual.finish();
//   usual.at(hours)            // for that hour of the day
#pragma once
#include <cstdint>
#include <map>
#include <vector>

namespace isobar::skill {

class Climatology {
 public:
  explicit Climatology(int64_t numbers) : numbers_(numbers) {}
  /// `hours` since 1970 (UTC); NaN: not known, and all fields share one mean. NaN values are left out.
  void add(double hours, const float* field);
  /// Call after the last field
  void finish();
  /// null: no field of that hour was added
  const float* at(double hours) const;

 private:
  struct Mean {
    std::vector<double> sum;
    std::vector<int32_t> missing;  // fields missing, by point; {}: none
    std::vector<float> mean;
    int64_t fields = 0;
  };
  int64_t numbers_;
  std::map<int64_t, Mean> by_hour_;
};

}  // namespace isobar::skill
