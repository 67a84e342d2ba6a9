// Inputs and targets of a net by channel: names, units, and the mean and standard deviation of its training
// data, and where and how far ahead those were. Stored in a checkpoint's state.json, so that forecasts need
// no training data.
//
//   normalise(state.channels.inputs, points, samples, physical, x);       // x = (physical - mean) / std
//   denormalise(state.channels.targets, points, samples, prediction);     // y * std + mean, in place
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace isobar::inference {

struct NetChannel {
  std::string name, units;                // units: "" if the files have none
  float mean = 0, std = 1;                // 0 and 1: not normalised
  std::vector<std::string> classes = {};  // class names of a class target, if the data have them
};

/// Degrees of rows and columns, the size of the files' grid, and hours from the newest input to the first
/// target; {}, 0 and NaN: unknown
struct NetPlaces {
  std::vector<double> latitude, longitude;
  int64_t rows = 0, columns = 0;
  double hours = std::numeric_limits<double>::quiet_NaN();
};

struct NetChannels {
  std::vector<NetChannel> inputs, targets;  // in the net's order
  NetPlaces places = {};                    // unknown in older files
  bool known() const { return !targets.empty(); }
};

/// The net's outputs: its targets, or for a classifier (`classes` > 0) one logit a class, named by the class
/// or by target and class index.
std::vector<NetChannel> outputs_of(const NetChannels& channels, int64_t classes);

/// Normalises f32 [samples, channels, points]. `out` may be `x`.
void normalise(const std::vector<NetChannel>& channels, int64_t points, int64_t samples, const float* x,
               float* out);
void denormalise(const std::vector<NetChannel>& channels, int64_t points, int64_t samples, float* x);

}  // namespace isobar::inference
