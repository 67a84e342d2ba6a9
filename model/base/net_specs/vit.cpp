#include "model/base/net_specs/vit.h"

#include "model/base/net_specs/parts/blocks.h"

namespace isobar {

void VitSpec::add_rows(KeyRows& to) {
  to.insert(to.end(),
            {{"net.embed_dim", embed_dim, kNetSize, "Width of a token."},
             {"net.depth", depth, kNetSize, "Transformer blocks."},
             {"net.num_heads", num_heads, kNetSize, "Attention heads."},
             {"net.mlp_ratio", mlp_ratio, kNetSize, "Hidden width of a block's MLP over embed_dim."},
             {"net.patch_size", patch_size, kNetSize, "Rows and columns of a square patch."},
             {"net.gelu", gelu, "Exact GELU, or its tanh approximation."},
             {"net.norm_eps", norm_eps, positive("use 1e-6"), "Added to the variance in norms."}});
  add_image_rows(to);
}

void VitSpec::check(const SpecCheck& check) const {
  check_patches(*this, check);
}

RoughSize VitSpec::rough_size(bool unfused) const {
  return rough_size_of_patches(*this, unfused);
}

}  // namespace isobar
