// Loss weights by name, resolved to channels: each target has a name, a level and, once data are open, a mean
// and standard deviation.
//
//   spec.train = with_channel_loss(spec, channels.targets);    // sets the keys of the loss
//
// A channel's level comes from net.levels (Aurora) or from levels in data.variables ("z@500,850").
#pragma once
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/inference/weights/net_channels.h"

namespace isobar::inference {

struct ChannelPlace {
  std::string name, variable;  // "z500", "z"; both equal for surface variables
  double level = 0;            // hPa; 0: surface
};
std::vector<ChannelPlace> places_of(const RunSpec& spec, const std::vector<NetChannel>& targets);

/// Sets the weights of C channels by `loss_weighting`:
///   channels  w_c = variable_weights(c) level_weights(c)
///   mean      the same, divided by their mean
///   aurora    gamma C / (V_S + V_A) times alpha w_c at the surface or beta w_c / L in upper air, for V_S and
///             V_A variables on L levels: as a mean over channels, the loss of Bodnar 2024
/// Throws ConfigError for an unknown name, and for level weights when no channel has a level.
TrainSpec with_channel_loss(const RunSpec& spec, const std::vector<NetChannel>& targets);
/// True when the configuration weighs channels
bool weighs_channels(const TrainSpec& t);

}  // namespace isobar::inference
