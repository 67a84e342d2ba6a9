#include "model/engine/channels_of_data.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "model/base/error.h"
#include "model/base/text/joined.h"
#include "model/base/text/printed.h"
#include "model/data/fields/channels.h"
#include "model/data/fields/field_file.h"
#include "model/inference/channel_loss.h"

namespace isobar::engine {
namespace {

std::vector<inference::NetChannel> with_statistics(const std::vector<std::string>& names,
                                                   const std::vector<std::string>& units,
                                                   const data::Statistics& s) {
  std::vector<inference::NetChannel> channels;
  for (size_t c = 0; c < names.size(); ++c) {
    inference::NetChannel channel{.name = names[c], .units = c < units.size() ? units[c] : ""};
    if (!s.mean.empty()) channel.mean = s.mean[c], channel.std = s.std[c];
    channels.push_back(std::move(channel));
  }
  return channels;
}

/// Fields have one grid and one step; rows of tables and words have none.
inference::NetPlaces places_of_fields(const data::Dataset& set, const data::Coordinates& at) {
  if (set.shape().of_table || set.shape().words > 0) return {};
  const auto finite = [](const std::vector<double>& axis) {
    return std::all_of(axis.begin(), axis.end(), [](double x) { return std::isfinite(x); });
  };
  inference::NetPlaces places{.rows = at.rows, .columns = at.columns, .hours = hours_ahead(set)};
  if (finite(at.latitude) && finite(at.longitude))
    places.latitude = at.latitude, places.longitude = at.longitude;
  return places;
}

/// A net of fields learns how far ahead to predict; months differ in length.
void require_step(double net, double have, const std::string& file) {
  if (std::abs(have - net) > 0.25 * net)
    throw ConfigError(file, "data.dt",
                      printed("is %g hours in these data, and %g in those of the net", have, net),
                      "give data of the same step, or choose it from both: data.time_step");
}

/// A net of fields learns what lies where: elsewhere its errors say nothing of it.
void require_grid(const inference::NetPlaces& net, const inference::NetPlaces& have,
                  const std::string& file) {
  constexpr const char* kMend = "give data on the net's grid, or put them on it: cdo remapbil";
  if (net.latitude.empty() || have.latitude.empty()) {
    // Archives without coordinates may be cropped by a row beforehand, as ERA5's 721 rows.
    const bool sized = net.rows > 0 && have.rows > 0;
    if (sized && (std::abs(net.rows - have.rows) > 1 || std::abs(net.columns - have.columns) > 1))
      throw ConfigError(file, "data",
                        printed("its grid of %ld x %ld is not that of the net's data, %ld x %ld", have.rows,
                                have.columns, net.rows, net.columns),
                        kMend);
    return;
  }
  const auto described = [](const inference::NetPlaces& p) {
    return data::FieldInfo{.path = "the net", .latitude = p.latitude, .longitude = p.longitude};
  };
  if (const std::string other = data::other_grid(described(net), described(have)); !other.empty())
    throw ConfigError(file, "data", other, kMend);
}

std::string list_of_classes(const std::vector<std::string>& classes) {
  return joined(classes, ", ", [](const std::string& one) { return one.empty() ? "-" : one; });
}

void require_same(const std::vector<inference::NetChannel>& want,
                  const std::vector<inference::NetChannel>& got, const char* key, const std::string& file) {
  for (size_t c = 0; c < std::max(want.size(), got.size()); ++c) {
    const std::string number = "channel " + std::to_string(c) + " of these data is ";
    if (c >= want.size() || c >= got.size() || want[c].name != got[c].name)
      throw ConfigError(file, key,
                        number + (c < got.size() ? got[c].name : "none") + ", and of the net " +
                            (c < want.size() ? want[c].name : "none"),
                        "give data of the same channels in the same order");
    if (!data::same_unit(want[c].units, got[c].units))
      throw ConfigError(
          file, key,
          number + got[c].name + " in '" + got[c].units + "', and of the net in '" + want[c].units + "'",
          "convert the data, or mend the attribute units: ncap2, ncatted");
    if (!want[c].classes.empty() && !got[c].classes.empty() && want[c].classes != got[c].classes)
      throw ConfigError(file, key,
                        number + got[c].name + " with the classes " + list_of_classes(got[c].classes) +
                            ", and of the net with " + list_of_classes(want[c].classes),
                        "number the classes as there: flag_values, flag_meanings");
  }
}

}  // namespace

inference::NetChannels channels_of_data(const data::Dataset& set) {
  const data::ChannelNames names = set.channels();
  const data::Coordinates at = set.coordinates();
  inference::NetChannels channels{with_statistics(names.inputs, at.input_units, set.input_statistics()),
                                  with_statistics(names.targets, at.units, set.target_statistics()),
                                  places_of_fields(set, at)};
  if (set.shape().classes > 0) channels.targets.at(0).classes = set.class_names();
  return channels;
}

double hours_ahead(const data::Dataset& set) {
  return set.size() > 0 ? set.hours(0, 1) - set.hours(0, 0) : std::nan("");
}

void require_channels(const inference::NetChannels& net, const data::Dataset& set, const std::string& file) {
  const inference::NetChannels have = channels_of_data(set);
  require_same(net.inputs, have.inputs, "data.inputs", file);
  require_targets(net, set, file);
  require_step(net.places.hours, have.places.hours, file);
}

void require_targets(const inference::NetChannels& net, const data::Dataset& set, const std::string& file) {
  const inference::NetChannels have = channels_of_data(set);
  require_same(net.targets, have.targets, "data.targets", file);
  require_grid(net.places, have.places, file);
}

namespace {

/// Degrees that an axis is off the net's at most, whose longitudes may differ by full turns
double farthest(const std::vector<double>& axis, double first, double step, double period) {
  double most = 0;
  for (size_t i = 0; i < axis.size(); ++i) {
    const double off = axis[i] - (first + step * static_cast<double>(i));
    most = std::max(most, std::abs(period > 0 ? std::remainder(off, period) : off));
  }
  return most;
}

/// Refuses a channel in the place of another that the net names; names that it does not know pass.
void require_order(const RunSpec& spec, const data::Dataset& set, const std::string& file) {
  const AuroraSpec& net = spec.net.aurora();
  std::vector<std::string> step, inputs;
  for (const inference::ChannelPlace& p : inference::places_of(spec, {})) step.push_back(p.name);
  for (int64_t before = net.history - 1; before >= 0; --before)
    for (const std::string& name : step) inputs.push_back(data::earlier(name, before));
  inputs.insert(inputs.end(), net.static_vars.begin(), net.static_vars.end());
  const auto check = [&](const std::vector<std::string>& want, const std::vector<std::string>& have) {
    for (size_t c = 0; c < std::min(want.size(), have.size()); ++c)
      if (have[c] != want[c] && std::find(want.begin(), want.end(), have[c]) != want.end())
        throw ConfigError(
            file, "data.variables",
            "channel " + std::to_string(c) + " of these data is " + have[c] + ", and of the net " + want[c],
            "name them in the order of net.surf_vars, then net.atmos_vars on net.levels, and "
            "data.static_fields in that of net.static_vars");
  };
  check(inputs, set.channels().inputs);
  check(step, set.channels().targets);
}

/// Aurora encodes the hours between a state and the next.
void require_lead(const AuroraSpec& net, const data::Dataset& set, const std::string& file) {
  const double hours = hours_ahead(set);
  if (std::isnan(hours) || std::abs(hours - net.lead_time) <= 0.01 * net.lead_time) return;
  throw ConfigError(file, "net.lead_time",
                    printed("is %g hours, and data.dt of these data %g", net.lead_time, hours),
                    "set data.dt, or net.lead_time");
}

}  // namespace

void require_fit(const RunSpec& spec, const data::Dataset& set, const std::string& file) {
  if (spec.net.kind() == AuroraSpec::kKind)
    require_order(spec, set, file), require_lead(spec.net.aurora(), set, file);
  const std::optional<NetGrid> grid = spec.net.grid();
  const data::Coordinates c = set.coordinates();
  if (!grid || c.latitude.empty() || c.longitude.empty()) return;
  constexpr double kShare = 0.25;  // of a step: written coordinates are rounded
  const auto refuse = [&](const char* axis, const char* key, const std::vector<double>& of, double first,
                          double step) {
    throw ConfigError(file, key,
                      printed("its %s are %g to %g, and those of the net's grid %g to %g", axis, of.front(),
                              of.back(), first, first + step * static_cast<double>(of.size() - 1)),
                      "give the net's grid as the data have it, or data on it (data.region, cdo remapbil)");
  };
  if (farthest(c.latitude, grid->north, -grid->row_step, 0) > kShare * grid->row_step)
    refuse("latitudes", grid->turns ? "net.img_height" : "net.north", c.latitude, grid->north,
           -grid->row_step);
  const double west = grid->turns ? c.longitude.front() : grid->west;
  if (farthest(c.longitude, west, grid->column_step, 360) > kShare * grid->column_step)
    refuse("longitudes", grid->turns ? "net.img_width" : "net.west", c.longitude, west, grid->column_step);
}

}  // namespace isobar::engine
