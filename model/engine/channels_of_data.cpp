#include "model/engine/channels_of_data.h"

#include <algorithm>

#include "model/base/error.h"
#include "model/data/fields/channels.h"

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

}  // namespace

inference::NetChannels channels_of_data(const data::Dataset& set) {
  const data::ChannelNames names = set.channels();
  const data::Coordinates at = set.coordinates();
  inference::NetChannels channels{with_statistics(names.inputs, at.input_units, set.input_statistics()),
                                  with_statistics(names.targets, at.units, set.target_statistics())};
  if (set.shape().classes > 0) channels.targets.at(0).classes = set.class_names();
  return channels;
}

void require_channels(const inference::NetChannels& net, const data::Dataset& set, const std::string& file) {
  const inference::NetChannels have = channels_of_data(set);
  const auto same = [&](const std::vector<inference::NetChannel>& want,
                        const std::vector<inference::NetChannel>& got, const char* key) {
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
    }
  };
  same(net.inputs, have.inputs, "data.inputs");
  same(net.targets, have.targets, "data.targets");
}

}  // namespace isobar::engine
