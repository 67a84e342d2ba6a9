#include "model/engine/channels_of_data.h"

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

}  // namespace isobar::engine
