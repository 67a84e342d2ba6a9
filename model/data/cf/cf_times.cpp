#include "model/data/cf/cf_times.h"

#include <cmath>

#include "model/data/cf/dates.h"

namespace isobar::data {

namespace {

/// Values without a reference date still give the spacing of steps, if their unit has a fixed length.
bool are_lengths(const std::string& units) {
  return units.empty() || units == "1" || time_scale(units + " since 2000-01-01", "").unread.empty();
}

}  // namespace

CfTimes times_of(const CfFile& file, int64_t dimension) {
  if (axis_of(file, dimension) != CfAxis::time) return {};
  const CfVariable* v = coordinate_variable(file, dimension);
  if (!v) v = file.find(file.dimensions()[dimension].name);  // of text, perhaps
  if (!v) return {};
  CfTimes t{.name = v->name};
  if (!v->numeric) {
    t.unread = "it holds " + (v->type.empty() ? "something else" : v->type) + " and no numbers";
    return t;
  }
  if (v->dims != Index{dimension}) return {};
  t.values = decoded(file, *v);
  t.units = file.text(*v, "units"), t.calendar = file.text(*v, "calendar");
  if (v->dates && t.calendar.empty()) t.calendar = "proleptic_gregorian";
  for (size_t i = 0; i < t.values.size(); ++i)
    if (std::isnan(t.values[i]))
      throw ArrayError("the time axis '" + v->name + "' has no value at step " + std::to_string(i),
                       "fill it, or drop the step: ncks -d " + file.dimensions()[dimension].name);
  const TimeScale scale = time_scale(t.units, t.calendar);
  if (!scale.unread.empty() && !(calendar_of(t.calendar) && are_lengths(t.units))) t.unread = scale.unread;
  if (scale.unread.empty() && !t.values.empty() &&
      (!scale.seconds(t.values.front()) || !scale.seconds(t.values.back())))
    t.unread = "its numbers are beyond any date";
  return t;
}

int64_t first_not_later(const std::vector<double>& times) {
  for (size_t t = 1; t < times.size(); ++t)
    if (!(times[t] > times[t - 1])) return static_cast<int64_t>(t);
  return -1;
}

}  // namespace isobar::data
