// Units that pages show numbers in.
#pragma once
#include <limits>

namespace isobar::report {

inline constexpr double kMs = 1e3;                                        // milliseconds a second
inline constexpr double kMB = 1e-6;                                       // megabytes a byte
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();  // shown as unknown

}  // namespace isobar::report
