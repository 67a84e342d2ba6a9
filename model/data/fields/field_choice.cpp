#include "model/data/fields/field_choice.h"

#include <algorithm>

#include "model/base/error.h"

namespace isobar::data {

FieldChoice field_choice(const DataSpec& d, Split split) {
  FieldChoice c(d.variables);
  c.channel_names = d.channel_names;
  c.region = d.region;
  c.stride = d.stride;
  c.dates = split == Split::valid && !d.valid_dates.empty() ? d.valid_dates : d.dates;
  c.time_step = d.time_step;
  c.static_fields = d.static_fields;
  c.static_file = d.static_file;
  c.forcings = d.forcings;
  c.mask = d.mask;
  return c;
}

std::vector<std::string> expand_levels(const std::vector<std::string>& variables) {
  std::vector<std::string> names;
  for (const std::string& v : variables) {
    const size_t at = v.find('@');
    if (at == std::string::npos) {
      names.push_back(v);
      continue;
    }
    const std::string variable = v.substr(0, at);
    for (size_t from = at + 1; from <= v.size();) {
      const size_t to = std::min(v.find_first_of(",/", from), v.size());
      const std::string level = v.substr(from, to - from);
      if (variable.empty() || level.empty() || level.find_first_not_of("0123456789.") != std::string::npos)
        throw ConfigError("configuration", "data.variables", "'" + v + "' is no variable with levels",
                          "write it so: z@500,850,1000");
      names.push_back(variable + level);
      from = to + 1;
    }
  }
  return names;
}

}  // namespace isobar::data
