// Names and normalisation of a data set's channels, as checkpoints store them, and its places.
//
//   state.channels = channels_of_data(*train_set);
#pragma once
#include "model/data/dataset.h"
#include "model/inference/weights/net_channels.h"

namespace isobar::engine {

inference::NetChannels channels_of_data(const data::Dataset& set);

/// Hours from a sample's newest input to its first target; NaN where files do not say
double hours_ahead(const data::Dataset& set);

/// Throws ConfigError, which names `file`, unless the data have the net's channels in its order, in its
/// units, on its grid and in its steps.
void require_channels(const inference::NetChannels& net, const data::Dataset& set, const std::string& file);
/// The same of targets alone, in any step: what a climatology needs
void require_targets(const inference::NetChannels& net, const data::Dataset& set, const std::string& file);

/// Throws ConfigError, which names `file`, if a net computes distances, positions or hours and the data have
/// others, or if it names its channels and they come in another order.
void require_fit(const RunSpec& spec, const data::Dataset& set, const std::string& file);

}  // namespace isobar::engine
