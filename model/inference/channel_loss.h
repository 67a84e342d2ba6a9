// Weights of the loss by name: what a net predicts is known by the name of each channel, its level, and its
// mean and standard deviation once there are data.
//
//   spec.train = with_channel_loss(spec, channels.targets);    // loss_weights, intense_above,
//   intense_weights
//
// A channel's level is that of net.levels (Aurora), or of a variable that data.variables names with its
// levels
// ("z@500,850").
#pragma once
#include <string>
#include <vector>

#include "model/base/spec.h"
#include "model/inference/net_channels.h"

namespace isobar {

struct ChannelPlace {
  std::string name, variable;  // "z500", "z"; of the surface both are the same
  double level = 0;            // hPa; 0: of the surface
};
std::vector<ChannelPlace> places_of(const RunSpec& spec, const std::vector<NetChannel>& targets);

/// The weights of C channels, of which `loss_weighting` is
///   channels  w_c = variable_weights(c) level_weights(c)
///   mean      the same, divided by their mean
///   aurora    gamma C / (V_S + V_A) times alpha w_c of the surface, beta w_c / L of upper air, with V_S and
///   V_A
///             variables, L levels: as a mean over channels, that is the loss of Bodnar 2024
/// Throws ConfigError for a name that no channel has, and for weights by level of channels without any.
TrainSpec with_channel_loss(const RunSpec& spec, const std::vector<NetChannel>& targets);
/// Whether there are any
bool weighs_channels(const TrainSpec& t);

}  // namespace isobar
