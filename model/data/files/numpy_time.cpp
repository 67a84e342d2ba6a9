#include "model/data/files/numpy_time.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "model/data/cf/calendar.h"

namespace isobar::data {

namespace {

struct Unit {
  const char *numpy, *cf;
  double scale;
  int64_t months;
};
constexpr Unit kUnits[] = {{"Y", "days", 1, 12},       {"M", "days", 1, 1},        {"W", "days", 7, 0},
                           {"D", "days", 1, 0},        {"h", "hours", 1, 0},       {"m", "minutes", 1, 0},
                           {"s", "seconds", 1, 0},     {"ms", "seconds", 1e-3, 0}, {"us", "seconds", 1e-6, 0},
                           {"ns", "seconds", 1e-9, 0}, {"ps", "seconds", 1e-12, 0}};

}  // namespace

std::optional<NumpyTime> numpy_time(const std::string& unit) {
  const size_t digits = std::min(unit.find_first_not_of("0123456789"), unit.size());
  if (digits > 9) return std::nullopt;
  const int64_t many = digits > 0 ? std::strtoll(unit.c_str(), nullptr, 10) : 1;
  for (const Unit& u : kUnits)
    if (unit.substr(digits) == u.numpy && many > 0)
      return NumpyTime{std::string(u.cf) + " since 1970-01-01 00:00:00", u.scale * static_cast<double>(many),
                       u.months * many};
  return std::nullopt;
}

double NumpyTime::value(int64_t stored) const {
  if (stored == std::numeric_limits<int64_t>::min()) return std::nan("");
  if (months == 0) {
    const double per = std::round(1 / scale);  // divide, because 1e9 is exact as a double and 1e-9 is not
    return scale < 1 && per * scale == 1 ? static_cast<double>(stored) / per
                                         : static_cast<double>(stored) * scale;
  }
  constexpr int64_t kFarthest = 12 * 100'000;  // months, beyond any date
  if (std::abs(stored) > kFarthest / months) return std::nan("");
  const int64_t all = stored * months, year = 1970 + (all >= 0 ? all : all - 11) / 12;
  return static_cast<double>(
      *day_number(Calendar::proleptic_gregorian, {year, static_cast<int>(all - (year - 1970) * 12) + 1, 1}));
}

}  // namespace isobar::data
