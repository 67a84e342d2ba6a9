// Counts of table rows that are not used as samples, by reason.
#pragma once
#include <cstdint>

namespace isobar::data {

struct LeftOut {
  int64_t missing = 0;  // with a missing value: empty, NaN, a fill value
  int64_t masked = 0;   // by data.mask_mode
  int64_t thinned = 0;  // by data.thin_fraction and data.max_patterns
};

}  // namespace isobar::data
