#include "model/data/cf/joined_times.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/base/error.h"
#include "model/data/cf/dates.h"

namespace isobar::data {

namespace {

Period chosen_period(const FieldChoice& c, Calendar calendar) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  if (c.dates.empty()) return {-inf, inf};
  Period both{};
  for (int i = 0; i < 2; ++i) {
    const auto one = date_period(c.dates[i], calendar);
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

constexpr const char* kTimesMend =
    "leave it out, or give a time axis such as CF has it ('hours since 2000-01-01')";

std::string why_unknown(const FieldInfo& info) {
  if (!info.time_unread.empty()) return info.time_unread;
  if (info.times.empty()) return "the file does not say when its steps are";
  return "its time axis does not say from when it counts ('" + info.time_units + "')";
}

void require_times(const FieldInfo& info, const FieldChoice& c) {
  const char* key = !c.dates.empty() ? "data.dates" : c.time_step > 0 ? "data.time_step" : nullptr;
  if (!c.forcings.empty()) key = "data.forcings";
  if (key) throw ConfigError(info.path, key, why_unknown(info), kTimesMend);
}

/// Forcings need the sun's position, which only calendars of real days have.
void require_real_days(const FieldInfo& info, const FieldChoice& c) {
  if (c.forcings.empty() || of_real_days(*calendar_of(info.calendar))) return;
  throw ConfigError(info.path, "data.forcings",
                    "its times are in a calendar of other days ('" + info.calendar + "')",
                    "leave them out, or give files of the standard calendar");
}

Calendar calendar_of_files(const std::vector<Series>& parts, const std::string& key) {
  const FieldInfo* first = nullptr;
  bool one = true;
  for (const Series& s : parts)
    for (const auto& file : s.files) {
      const FieldInfo& info = file->info();
      if (!tells_time(info)) continue;
      if (!first) first = &info;
      const Calendar a = *calendar_of(first->calendar), b = *calendar_of(info.calendar);
      one = one && a == b;
      if (a != b && !(of_real_days(a) && of_real_days(b)))
        throw ConfigError(info.path, key,
                          "counts in the calendar '" + info.calendar + "', and " + first->path + " in '" +
                              first->calendar + "': their days are not the same",
                          "join files of one calendar: cdo setcalendar");
    }
  return first && one ? *calendar_of(first->calendar) : Calendar::proleptic_gregorian;
}

/// Names sort otherwise than times do: apr.nc comes before jan.nc.
void sort_by_time(FieldFiles& files) {
  const auto begin = [](const auto& file) {
    const FieldInfo& info = file->info();
    return *seconds_of(info.times[0], info.time_units, info.calendar);
  };
  std::stable_sort(files.begin(), files.end(),
                   [&](const auto& a, const auto& b) { return begin(a) < begin(b); });
}

void fill(Series& s, const FieldChoice& c, const std::string& key, const Period& period, Calendar calendar) {
  const auto iso_of = [calendar](double seconds) { return isobar::data::iso_of(seconds, calendar); };
  sort_by_time(s.files);
  for (const auto& file : s.files) {
    const FieldInfo& info = file->info();
    require_real_days(info, c);
    const TimeScale scale = time_scale(info.time_units, info.calendar);
    for (int64_t t = 0; t < info.steps; ++t) {
      const double at = *scale.seconds(info.times[t]);
      if (!s.steps.empty() && at <= s.steps.back().seconds && at >= period.first && at <= period.last)
        throw ConfigError(info.path, key,
                          "begins at " + iso_of(at) + ", and " + s.steps.back().file->info().path +
                              " before it ends at " + iso_of(s.steps.back().seconds),
                          "drop the steps that both have, or one of the files");
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

void require_same(const Series& a, const Series& b, const std::string& key, Calendar calendar) {
  const auto iso_of = [calendar](double seconds) { return isobar::data::iso_of(seconds, calendar); };
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
  return info.time_unread.empty() && !info.times.empty() &&
         seconds_of(info.times[0], info.time_units, info.calendar).has_value() &&
         seconds_of(info.times.back(), info.time_units, info.calendar).has_value();
}

void choose_times(std::vector<Series>& parts, const FieldChoice& c, const std::string& key) {
  const Calendar calendar = calendar_of_files(parts, key);
  const Period period = chosen_period(c, calendar);
  for (Series& s : parts) {
    const auto silent =
        std::find_if(s.files.begin(), s.files.end(), [](const auto& f) { return !tells_time(f->info()); });
    if (silent == s.files.end()) {
      fill(s, c, key, period, calendar);
      continue;
    }
    require_times((*silent)->info(), c);
    if (parts.size() > 1)
      throw ConfigError((*silent)->info().path, key,
                        why_unknown((*silent)->info()) + ", so that nothing can be joined to it",
                        "give NetCDF or Zarr with a time axis, or train on it alone");
    for (const auto& file : s.files)
      for (int64_t t = 0; t < file->info().steps; ++t) s.steps.push_back({file.get(), t, std::nan("")});
  }
  for (size_t i = 1; i < parts.size(); ++i) require_same(parts[0], parts[i], key, calendar);
}

}  // namespace isobar::data
