// A vision transformer: patches, equal blocks, pixels.
#pragma once
#include "model/base/net_specs/images.h"

namespace isobar {

struct VitSpec : Images {
  static constexpr const char* kKind = "vit";
  static constexpr bool kRollsOut = true;
  int64_t embed_dim = 384;  // D
  int64_t depth = 12;
  int64_t num_heads = 8;
  int64_t patch_size = 8;  // p, square
  int64_t mlp_ratio = 4;
  double norm_eps = 1e-6;
  Gelu gelu = Gelu::erf;
  int64_t tokens() const { return img_height / patch_size * (img_width / patch_size); }
  int64_t width() const { return embed_dim; }
  int64_t heads() const { return num_heads; }
  int64_t hidden() const { return mlp_ratio * embed_dim; }
  int64_t kv_heads() const { return num_heads; }
  int64_t blocks() const { return depth; }
  void add_rows(KeyRows& to);
  void check(const SpecCheck& check) const;
  RoughSize rough_size(bool unfused) const;
};

}  // namespace isobar
