// A plain 2-D Swin (Liu 2021) in the shape of Swin-Unet (Cao 2021), image to image, for weather fields:
//
//   embed   image -> x [B, H/p, W/p, D], learned positions
//   block   × encoder_depths[0], merge, block × encoder_depths[1], merge, …; the width doubles at each merge
//   split   between the decoder's resolutions, each with the skip connection from the encoder's last block of
//           its resolution added
//   head    norm, linear -> image, loss
//
// Blocks are pre-norm transformer blocks (block.h) whose attention is inside windows, in every second one of
// a stage shifted by half a window, with Swin's relative position bias. As in weather's Swins, longitudes may
// be a circle, and windows need not divide the grid (padding is never attended to). Two choices are Aurora's:
// skips are added where Swin-Unet concatenates, and a split norms its neighbours between two linears.
#include <map>

#include "model/nets/images/pixels.h"
#include "model/nets/kinds.h"
#include "model/nets/transformer/block.h"
#include "model/nets/windows/resample.h"
#include "model/nets/windows/swin_unet.h"

namespace isobar::nets {
namespace {

std::vector<SwinItem> items(const SwinSpec& n) {
  return swin_items(n.encoder_depths, n.decoder_depths);
}

WindowGrid finest(const SwinSpec& n) {
  return {.grid = {1, n.img_height / n.patch_size, n.img_width / n.patch_size},
          .window = {1, n.window[0], n.window[1]},
          .circle = n.periodic,
          .by_sides = n.relative_position_bias};
}

class Swin : public ImageNet {
 public:
  Swin(const SwinSpec& n, Emission& e, const Sharding& at)
      : n_(n), e_(e), at_(at), grids_(e, at, finest(n), n.encoder_depths.size()) {
    const Sharding& patches = grids_.patches();
    const ImageShape read = image_read(n, n.patch_size), predicted = image_predicted(n, n.patch_size);
    PatchEmbed* const embed = add_part(std::make_unique<PatchEmbed>(0, e, patches, read, n.embed_dim));
    const std::vector<SwinItem> list = items(n);
    for (const SwinItem& item : list) add(item);
    PixelHead* const head =
        add_part(std::make_unique<PixelHead>(here(), e, patches, predicted, block_shape(0)));
    add_streams(list);
    end(e, patches, read, predicted, embed, head);
  }

 private:
  int64_t width(int64_t resolution) const { return n_.embed_dim << resolution; }
  BlockShape block_shape(int64_t resolution) const {
    const int64_t heads = n_.encoder_num_heads[static_cast<size_t>(resolution)];
    return {.width = width(resolution),
            .heads = heads,
            .kv_heads = heads,
            .hidden = n_.mlp_ratio * width(resolution),
            .tokens = n_.tokens() >> (2 * resolution),
            .eps = n_.norm_eps};
  }
  std::string stage_name(const SwinItem& item) const {
    const auto coarsest = static_cast<int64_t>(n_.encoder_depths.size()) - 1;
    return item.encoder ? "encoder." + std::to_string(item.resolution)
                        : "decoder." + std::to_string(coarsest - item.resolution);
  }

  void add(const SwinItem& item) {
    const int64_t r = item.resolution;
    const std::string name = stage_name(item);
    if (item.kind == SwinItem::Kind::block) {
      add_part(std::make_unique<Block>(
          here(), block_path(blocks_++), name + ".blocks." + std::to_string(item.of), e_, grids_.sharding(r),
          block_shape(r), &grids_.windows(r, item.shifted()), n_.relative_position_bias));
    } else if (item.kind == SwinItem::Kind::merge) {
      merges_[r] = here();
      add_part(patch_merging(here(), "merge" + std::to_string(r), name + ".downsample", e_,
                             grids_.sharding(r + 1), grids_.neighbours(r), width(r), 1, n_.norm_eps));
    } else {
      add_part(patch_splitting(here(), "split" + std::to_string(splits_++), name + ".upsample", e_,
                               grids_.sharding(r - 1), grids_.neighbours(r - 1), width(r), true,
                               n_.norm_eps));
    }
  }

  // Ordered by the part that reads them, a split's skip connection first
  void add_streams(const std::vector<SwinItem>& list) {
    int64_t resolution = 0;
    const auto elements = [&](int64_t r) { return at_.batch * grids_.own_tokens(r) * width(r); };
    for (int32_t to = 1; to < here(); ++to) {
      const SwinItem* const item = to + 1 < here() ? &list[static_cast<size_t>(to) - 1] : nullptr;
      const bool splits = item && item->kind == SwinItem::Kind::split;
      if (splits)
        streams_.push_back({"skip", merges_.at(resolution - 1), to, DType::f32, elements(resolution - 1)});
      streams_.push_back({"x" + std::to_string(resolution), to - 1, to, DType::f32, elements(resolution)});
      if (item && item->kind == SwinItem::Kind::merge) ++resolution;
      if (splits) --resolution;
    }
  }

  const SwinSpec n_;
  Emission& e_;
  const Sharding& at_;
  SwinGrids grids_;
  int64_t blocks_ = 0, splits_ = 0;
  std::map<int64_t, int32_t> merges_;  // by the finer resolution
};

}  // namespace

std::unique_ptr<Net> make_net(const SwinSpec& n, Emission& e, const Sharding& at) {
  return std::make_unique<Swin>(n, e, at);
}

std::vector<plan::Part> parts_of(const SwinSpec& n) {
  return swin_parts(items(n), true, false);
}

NetLimits limits_of(const SwinSpec& n) {
  std::vector<NetLimits::Size> tp{{"the MLP's width", n.mlp_ratio * n.embed_dim}};
  for (size_t i = 0; i < n.encoder_num_heads.size(); ++i)
    tp.push_back({"net.encoder_num_heads[" + std::to_string(i) + "]", n.encoder_num_heads[i]});
  return {.tp = std::move(tp),
          .kv_heads = n.encoder_num_heads[0],
          .tokens = n.tokens(),
          .bands = coarser(finest(n).grid, static_cast<int64_t>(n.encoder_depths.size()) - 1)[1],
          .inner_parts = static_cast<int64_t>(items(n).size()),
          .no_sequence = "cannot cut a swin's rows: its windows gather them",
          .attends = false};
}

}  // namespace isobar::nets
