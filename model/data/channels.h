// Which channels of files a net reads and which it predicts: all of them both ways, or those that data.inputs
// and data.targets name. Forcings are inputs alone; diagnosed variables are targets alone.
//
//   ChannelChoice chosen = choose_channels(data, file.info(), want);   // throws ConfigError
//   chosen.inputs[0]                                                   // channel of the file
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/spec.h"
#include "model/data/dataset.h"
#include "model/data/field_file.h"

namespace isobar {

struct ChannelChoice {
  std::vector<int64_t> inputs, targets;  // channels of the file, in the order of the net's; inputs of a time
  std::vector<int64_t> fixed;            // … and those that stand once, behind all times
  ChannelNames names;                    // of both
};

/// What a channel is called so many data.dt before the newest state: "u10[-1]"
std::string earlier(const std::string& channel, int64_t before);

/// "u10, v10": for messages
std::string listed(const std::vector<std::string>& names);

/// Throws ConfigError for a name that the file does not have, and where their number is not the net's.
ChannelChoice choose_channels(const DataSpec& data, const FieldInfo& file, const SampleShape& want);

}  // namespace isobar
