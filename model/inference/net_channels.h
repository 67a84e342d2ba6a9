// What a net reads and predicts, number by number of physics: names, units, and the mean and standard
// deviation that its training subtracted and divided by. Stands in a checkpoint's state.json, so that
// whoever has the checkpoint needs no training data.
//
//   normalise(state.channels.inputs, points, samples, physical, x);       // x = (physical - mean) / std
//   denormalise(state.channels.targets, points, samples, prediction);     // y * std + mean, in place
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace isobar {

struct NetChannel {
  std::string name, units;                // units: "" where the files do not say
  float mean = 0, std = 1;                // as training used them; 0 and 1: it did not normalise
  std::vector<std::string> classes = {};  // of a target of classes, their names where the data told them
};

struct NetChannels {
  std::vector<NetChannel> inputs, targets;  // in the net's order
  bool known() const { return !targets.empty(); }
};

/// What a net puts out: its targets; of one that classifies, a logit for each of `classes` classes, under the
/// name of its class, or the target's and the class's number. `classes`: 0 of a net that predicts numbers.
std::vector<NetChannel> outputs_of(const NetChannels& channels, int64_t classes);

/// [samples, channels, points] of f32. `out` may be `x`.
void normalise(const std::vector<NetChannel>& channels, int64_t points, int64_t samples, const float* x,
               float* out);
void denormalise(const std::vector<NetChannel>& channels, int64_t points, int64_t samples, float* x);

}  // namespace isobar
