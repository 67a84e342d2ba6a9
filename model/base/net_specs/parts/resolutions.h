// Keys of Swin U-Nets (Liu 2021, Cao 2021): blocks at each resolution, with attention inside windows.
#pragma once
#include <cstdint>
#include <numeric>
#include <vector>

#include "model/base/net_specs/images.h"

namespace isobar {

struct Resolutions : Images {
  static constexpr const char* kDepthKey = "net.encoder_depths";
  int64_t patch_size;                      // p, square
  int64_t embed_dim;                       // D at the finest resolution, doubled at each coarser one
  std::vector<int64_t> encoder_depths;     // blocks by resolution, finest first
  std::vector<int64_t> encoder_num_heads;  // … and heads; reversed in the decoder
  std::vector<int64_t> decoder_depths;     // coarsest first
  std::vector<int64_t> window;             // the last two are patches down and across
  int64_t mlp_ratio;
  double norm_eps;
  int64_t patches() const { return img_height / patch_size * (img_width / patch_size); }
  int64_t width() const { return embed_dim; }
  int64_t heads() const { return encoder_num_heads.empty() ? 1 : encoder_num_heads.front(); }
  int64_t blocks() const {
    return std::accumulate(decoder_depths.begin(), decoder_depths.end(),
                           std::accumulate(encoder_depths.begin(), encoder_depths.end(), int64_t{0}));
  }
  void add_depth_rows(KeyRows& to);
  void check_resolutions_count(size_t least, const SpecCheck& check) const;
  void check_resolutions(const SpecCheck& check) const;
  /// Numbers of the blocks alone; `tokens`: at the finest resolution.
  RoughSize rough_size_of_blocks(int64_t tokens) const;
};

}  // namespace isobar
