// Keys of all nets that read and predict fields on a grid.
#pragma once
#include <cstdint>

#include "model/base/net_specs/net_answers.h"

namespace isobar {

/// Meanings of img_height and in_channels, where a net knows more, and its least img_height.
struct ImageHelp {
  const char* height = "Rows of the grid (latitudes).";
  const char* in_channels = "Channels read: fields, static fields and forcings, times data.history.";
  Allowed heights = kNetSize;
};

struct Images : NetAnswers {  // weather fields on a grid, as input and output
  int64_t img_height = 360;   // rows (latitude)
  int64_t img_width = 720;    // columns (longitude)
  int64_t in_channels = 20;
  int64_t out_channels = 20;
  int64_t pixels() const { return img_height * img_width; }
  int64_t outputs() const { return out_channels; }
  int64_t sample_numbers() const { return (in_channels + out_channels) * pixels(); }
  void add_image_rows(KeyRows& to, const ImageHelp& help = {});
};

}  // namespace isobar
