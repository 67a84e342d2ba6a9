#include "model/data/joined_times.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/base/error.h"
#include "model/data/dates.h"

namespace isobar {

namespace {

Period chosen_period(const FieldChoice& c) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  if (c.dates.empty()) return {-inf, inf};
  Period both{};
  for (int i = 0; i < 2; ++i) {
    const auto one = date_period(c.dates[i]);
    if (!one)
      throw ConfigError("configuration", "data.dates", "'" + c.dates[i] + "' is no date",
                        "write ISO 8601: 2019, 2019-03, 2019-03-01 or 2019-03-01T06:00");
    (i == 0 ? both.first : both.last) = i == 0 ? one->first : one->last;
  }
  if (both.first > both.last)
    throw ConfigError("configuration", "data.dates", c.dates[0] + " comes after " + c.dates[1],
                      "give the first date, then the last");
  return both;
}

void require_times(const FieldInfo& info, const FieldChoice& c) {
  const char* key = !c.dates.empty() ? "data.dates" : c.time_step > 0 ? "data.time_step" : nullptr;
  if (!c.forcings.empty()) key = "data.forcings";
  if (key)
    throw ConfigError(info.path, key,
                      info.times.empty()
                          ? "the file does not say when its steps are"
                          : "its times are in a calendar of other days ('" + info.calendar + "')",
                      "leave it out, or give NetCDF or Zarr with a time axis of the standard calendar");
}

void fill(Series& s, const FieldChoice& c, const std::string& key, const Period& period) {
  for (const auto& file : s.files) {
    const FieldInfo& info = file->info();
    for (int64_t t = 0; t < info.steps; ++t) {
      const double at = *seconds_of(info.times[t], info.time_units, info.calendar);
      if (!s.steps.empty() && at <= s.steps.back().seconds && at >= period.first && at <= period.last)
        throw ConfigError(info.path, key,
                          "begins at " + iso_of(at) + ", and " + s.steps.back().file->info().path +
                              " before it ends at " + iso_of(s.steps.back().seconds),
                          "name the files so that they follow each other, and drop doubled steps");
      const double step_s = c.time_step * 3600;
      const bool on_step = step_s <= 0 || std::abs(std::remainder(at, step_s)) < 1;
      if (at >= period.first && at <= period.last && on_step) s.steps.push_back({file.get(), t, at});
    }
  }
  if (s.steps.empty()) {
    const FieldInfo &a = s.files.front()->info(), &b = s.files.back()->info();
    throw ConfigError(a.path, c.dates.empty() ? "data.time_step" : "data.dates",
                      "none of its steps is chosen",
                      "it holds " + iso_time(a.times.front(), a.time_units, a.calendar) + " to " +
                          iso_time(b.times.back(), b.time_units, b.calendar));
  }
}

void require_same(const Series& a, const Series& b, const std::string& key) {
  const size_t n = std::min(a.steps.size(), b.steps.size());
  size_t i = 0;
  while (i < n && std::abs(a.steps[i].seconds - b.steps[i].seconds) < 1) ++i;
  if (i == a.steps.size() && i == b.steps.size()) return;
  const bool a_has = i < a.steps.size() && (i == b.steps.size() || a.steps[i].seconds < b.steps[i].seconds);
  const Series &has = a_has ? a : b, &lacks = a_has ? b : a;
  const double first = std::max(a.steps.front().seconds, b.steps.front().seconds),
               last = std::min(a.steps.back().seconds, b.steps.back().seconds);
  throw ConfigError(
      lacks.files.front()->info().path, key,
      "has no " + iso_of(has.steps[i].seconds) + ", which " + has.steps[i].file->info().path + " has",
      first <= last ? "choose times that all files have: data.dates: [" + iso_of(first) + ", " +
                          iso_of(last) + "], or data.time_step, in hours"
                    : std::string("give files of the same time: these have none in common"));
}

}  // namespace

bool tells_time(const FieldInfo& info) {
  return !info.times.empty() && seconds_of(info.times[0], info.time_units, info.calendar).has_value() &&
         seconds_of(info.times.back(), info.time_units, info.calendar).has_value();
}

void choose_times(std::vector<Series>& parts, const FieldChoice& c, const std::string& key) {
  const Period period = chosen_period(c);
  for (Series& s : parts) {
    const auto silent =
        std::find_if(s.files.begin(), s.files.end(), [](const auto& f) { return !tells_time(f->info()); });
    if (silent == s.files.end()) {
      fill(s, c, key, period);
      continue;
    }
    require_times((*silent)->info(), c);
    if (parts.size() > 1)
      throw ConfigError((*silent)->info().path, key,
                        "the file does not say when its steps are, so that nothing can be joined to it",
                        "give NetCDF or Zarr with a time axis, or train on it alone");
    for (const auto& file : s.files)
      for (int64_t t = 0; t < file->info().steps; ++t) s.steps.push_back({file.get(), t, std::nan("")});
  }
  for (size_t i = 1; i < parts.size(); ++i) require_same(parts[0], parts[i], key);
}

}  // namespace isobar
