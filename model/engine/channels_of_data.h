// What a data set's channels are called and how they are normalised, as a checkpoint stores it.
//
//   state.channels = channels_of_data(*train_set);
#pragma once
#include "model/data/dataset.h"
#include "model/inference/net_channels.h"

namespace isobar {

NetChannels channels_of_data(const Dataset& set);

}  // namespace isobar
