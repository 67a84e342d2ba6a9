// Vision transformers of one resolution and of two.
#pragma once
#include "model/base/net_specs/images.h"

namespace isobar {

// Patches of an image as tokens, whose blocks are equal
struct PatchesSpec : Images {
  int64_t embed_dim;  // D
  int64_t num_heads;
  int64_t patch_size = 8;  // p, square
  int64_t mlp_ratio = 4;
  double norm_eps = 1e-6;
  Gelu gelu = Gelu::erf;
  int64_t tokens() const { return img_height / patch_size * (img_width / patch_size); }
  int64_t width() const { return embed_dim; }
  int64_t heads() const { return num_heads; }
  int64_t hidden() const { return mlp_ratio * embed_dim; }
  int64_t kv_heads() const { return num_heads; }
  void add_patch_rows(KeyRows& to);
  void check(const SpecCheck& check) const;
};

// Patches, equal blocks, pixels
struct VitSpec : PatchesSpec {
  static constexpr const char* kKind = "vit";
  static constexpr bool kRollsOut = true;
  VitSpec() : PatchesSpec{Images{}, 384, 8} {}
  int64_t depth = 12;
  int64_t blocks() const { return depth; }
  void add_rows(KeyRows& to);
  RoughSize rough_size(bool unfused) const;
};

// A ViT of two resolutions, shaped like the U-Nets of Swin and Aurora: blocks on a fine grid, patch merging
// (four tokens into one of twice the width), blocks on the coarse grid, splitting, and blocks on the fine
// grid with a skip connection from the first ones.
struct UnetSpec : PatchesSpec {  // embed_dim, num_heads: on the fine grid, twice as many on the coarse one
  static constexpr const char *kKind = "unet", *kDepthKey = "net.bottleneck_depth";
  static constexpr bool kRollsOut = true;
  UnetSpec() : PatchesSpec{Images{}, 96, 4} {}
  int64_t encoder_depth = 2;
  int64_t bottleneck_depth = 6;  // on the coarse grid
  int64_t decoder_depth = 2;
  int64_t blocks() const { return encoder_depth + bottleneck_depth + decoder_depth; }
  void add_rows(KeyRows& to);
  void check(const SpecCheck& check) const;
  RoughSize rough_size(bool unfused) const;
};

}  // namespace isobar
