// The file channels that a net reads and those that it predicts: all, or those named by data.inputs and
// data.targets. Forcings are inputs only; diagnosed variables are targets only.
//
//   ChannelChoice chosen = choose_channels(data, file.info(), want);   // throws ConfigError
//   chosen.inputs[0]                                                   // channel of the file
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/data/dataset.h"
#include "model/data/fields/field_file.h"

namespace isobar::data {

struct ChannelChoice {
  std::vector<int64_t> inputs, targets;  // channels of the file, in the net's order; inputs of one time
  std::vector<int64_t> fixed;            // inputs that appear once, after those of all times
  ChannelNames names;                    // of inputs and targets
};

/// The name of a channel `before` data.dt before the newest state: "u10[-1]"
std::string earlier(const std::string& channel, int64_t before);

/// False for units that differ in more than spelling: "m s**-1", "m s^-1" and "m/s" are one, and so is any
/// with none ("", "1", "~").
bool same_unit(const std::string& a, const std::string& b);

/// Throws ConfigError for a name that the file does not have, or when their number differs from the net's.
ChannelChoice choose_channels(const DataSpec& data, const FieldInfo& file, const SampleShape& want);

}  // namespace isobar::data
