// A 2-D Swin U-Net.
#pragma once
#include "model/base/net_specs/parts/resolutions.h"

namespace isobar {

// A 2-D Swin (Liu 2021) in the shape of a U-Net, on a latitude-longitude grid: attention inside windows of
// patches, shifted in every second block; patch merging and splitting between resolutions; skip connections.
struct SwinSpec : Resolutions {
  static constexpr const char* kKind = "swin";
  static constexpr bool kRollsOut = true;
  SwinSpec() : Resolutions{Images{}, 4, 96, {2, 2, 6}, {3, 6, 12}, {2, 2, 2}, {6, 12}, 4, 1e-5} {}
  bool periodic = true;                // longitudes are a circle
  bool relative_position_bias = true;  // learned, by head; added to the scores of attention
  int64_t tokens() const { return patches(); }
  void add_rows(KeyRows& to);
  void check_lists(const SpecCheck& check) const;
  void check(const SpecCheck& check) const;
  RoughSize rough_size(bool unfused) const;
};

}  // namespace isobar
