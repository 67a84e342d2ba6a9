#include "bench/cli/options.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "model/base/error.h"

namespace isobar {
namespace {

CLI::Validator number_that(const std::string& shown, const std::string& refusal,
                           bool (*is_right)(double, double, double), double low, double high) {
  CLI::Validator v(shown);
  v.operation([=](const std::string& text) {
    const char *begin = text.data(), *end = begin + text.size();
    double value = 0;
    const auto [rest, failed] = std::from_chars(begin, end, value);
    const bool number = failed == std::errc() && rest == end && std::isfinite(value);
    return number && is_right(value, low, high) ? std::string() : text + " is not " + refusal;
  });
  return v;
}

}  // namespace

void refuse_unused(const CLI::App& command, std::initializer_list<Unused> options) {
  for (const Unused& o : options)
    if (o.unused && command.count(o.option) > 0)
      throw ConfigError("isobar " + command.get_name(), o.option, o.what, o.mend);
}

void refuse_contradiction(const std::vector<std::string>& set, const std::string& key, int64_t value,
                          const std::string& option) {
  for (const std::string& one : set)
    if (one.starts_with(key + "=") && one != key + "=" + std::to_string(value))
      throw ConfigError(
          "--set", key,
          "is " + one.substr(key.size() + 1) + ", and " + option + " makes it " + std::to_string(value),
          "keep one of the two");
}

CLI::Validator number_in(double low, double high) {
  char range[64];
  std::snprintf(range, sizeof range, "%g to %g", low, high);
  return number_that(
      std::string("in [") + range + "]", std::string("a number from ") + range,
      [](double v, double l, double h) { return v >= l && v <= h; }, low, high);
}

CLI::Validator above_zero() {
  return number_that(
      "above 0", "a number above 0", [](double v, double, double) { return v > 0; }, 0, 0);
}

}  // namespace isobar
