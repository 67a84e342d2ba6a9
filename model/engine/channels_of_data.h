// Names and normalisation of a data set's channels, as checkpoints store them.
//
//   state.channels = channels_of_data(*train_set);
#pragma once
#include "model/data/dataset.h"
#include "model/inference/weights/net_channels.h"

namespace isobar::engine {

inference::NetChannels channels_of_data(const data::Dataset& set);

}  // namespace isobar::engine
