#include "model/base/net_specs/vits.h"

#include "model/base/net_specs/parts/blocks.h"

namespace isobar {
namespace {

/// `wide`: weights of a block, relative to one of the net's width
template <class Net>
RoughSize rough_size_of_patches(const Net& n, bool unfused, double wide = 1) {
  const auto real = [](int64_t v) { return static_cast<double>(v); };
  const int64_t channels = n.in_channels > n.out_channels ? n.in_channels : n.out_channels;
  return rough_size_of_blocks(n, 2 * real(channels) * real(n.pixels()) / real(n.tokens()), unfused, wide);
}

}  // namespace

void PatchesSpec::add_patch_rows(KeyRows& to) {
  to.insert(to.end(),
            {{"net.mlp_ratio", mlp_ratio, kNetSize, "Hidden width of a block's MLP over embed_dim."},
             {"net.patch_size", patch_size, kNetSize, "Rows and columns of a square patch."},
             {"net.gelu", gelu, "Exact GELU, or its tanh approximation."},
             {"net.norm_eps", norm_eps, positive("use 1e-6"), "Added to the variance in norms."}});
  add_image_rows(to);
}

void PatchesSpec::check(const SpecCheck& check) const {
  check.divides(num_heads, embed_dim, "net.num_heads", "net.embed_dim");
  check.divides(patch_size, img_height, "net.patch_size", "net.img_height");
  check.divides(patch_size, img_width, "net.patch_size", "net.img_width");
}

void VitSpec::add_rows(KeyRows& to) {
  to.insert(to.end(), {{"net.embed_dim", embed_dim, kNetSize, "Width of a token."},
                       {"net.depth", depth, kNetSize, "Transformer blocks."},
                       {"net.num_heads", num_heads, kNetSize, "Attention heads."}});
  add_patch_rows(to);
}

RoughSize VitSpec::rough_size(bool unfused) const {
  return rough_size_of_patches(*this, unfused);
}

void UnetSpec::add_rows(KeyRows& to) {
  to.insert(
      to.end(),
      {{"net.embed_dim", embed_dim, kNetSize, "Width on the fine grid; the coarse grid has twice as much."},
       {"net.encoder_depth", encoder_depth, kNetSize, "Blocks on the fine grid before the coarse one."},
       {"net.bottleneck_depth", bottleneck_depth, kNetSize, "Blocks on the coarse grid."},
       {"net.decoder_depth", decoder_depth, kNetSize, "Blocks on the fine grid after the coarse one."},
       {"net.num_heads", num_heads, kNetSize,
        "Attention heads on the fine grid; the coarse grid has twice as many."}});
  add_patch_rows(to);
}

void UnetSpec::check(const SpecCheck& check) const {
  PatchesSpec::check(check);
  for (const auto& [size, key] :
       {std::pair{img_height, "net.img_height"}, std::pair{img_width, "net.img_width"}})
    check.that(size / patch_size % 2 == 0, key,
               std::to_string(size) + " is an odd number of patches, and a unet merges two by two",
               "use a multiple of 2 * net.patch_size = " + std::to_string(2 * patch_size));
}

RoughSize UnetSpec::rough_size(bool unfused) const {
  return rough_size_of_patches(*this, unfused, 4);  // blocks of twice the width have four times the weights
}

}  // namespace isobar
