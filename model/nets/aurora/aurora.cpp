// Aurora (Bodnar 2024, arXiv 2405.13063): a Perceiver encoder, a 3-D Swin U-Net, a Perceiver decoder.
//
//   embed   fields -> x [B, latent levels, H/p, W/p, D], s: the lead time's conditioning
//   block   × encoder_depths[0], merge, block × encoder_depths[1], merge, …
//   split   between the decoder's resolutions: its finest ones get a skip connection added
//   head    the last x beside the first resolution's -> fields, loss
//
// Context parallelism gives each rank a band of latitudes (bands.h). Rows of windows that two bands share are
// exchanged before and after attention, under the work on windows inside one band; all else is local.
//
// Parameters have the published model's names, except that q, k and v are separate (there: one qkv) and a
// patch embedding has one weight for all variables (there: one each); see published.h.
#include <algorithm>
#include <map>
#include <numeric>

#include "model/base/step_tensor.h"
#include "model/nets/aurora/decoder.h"
#include "model/nets/aurora/encoder.h"
#include "model/nets/aurora/fourier.h"
#include "model/nets/aurora/swin.h"
#include "model/nets/images/pixels.h"
#include "model/nets/kinds.h"
#include "model/nets/transformer/block.h"
#include "model/nets/windows/resample.h"
#include "model/nets/windows/swin_unet.h"

namespace isobar::nets {
namespace aurora {
namespace {

std::vector<SwinItem> items(const AuroraSpec& n) {
  return swin_items(n.encoder_depths, n.decoder_depths);
}

// The published model adds a skip connection after every split but the first; after the last block the head
// concatenates it.
bool has_skip(const AuroraSpec& n, const SwinItem& split) {
  return split.resolution + 1 < static_cast<int64_t>(n.encoder_depths.size());
}

WindowGrid finest(const AuroraSpec& n) {
  return {.grid = {n.latent_levels, n.img_height / n.patch_size, n.img_width / n.patch_size},
          .window = {n.window[0], n.window[1], n.window[2]},
          .as_aurora = true};
}

// Input and targets as images, and the code of each step's time [B, D]. In a roll-out the prediction becomes
// the newest of the steps that are read next; static fields stay, and time advances by the lead time.
class Ends : public RollOut {
 public:
  /// `at`: of the patches.
  Ends(Emission& e, const AuroraSpec& n, const Sharding& at, Encoder* encoder, Decoder* decoder)
      : e_(e), n_(n), at_(at), encoder_(encoder), decoder_(decoder) {}

  std::vector<plan::BatchTensor> batch() const {
    std::vector<plan::BatchTensor> out = image_batch(
        e_.spec, image_read(n_, n_.patch_size), image_predicted(n_, n_.patch_size), at_, decoder_->index());
    for (int32_t k = 0; k < e_.spec.train.rollout; ++k) {
      out.push_back({step_tensor("time", k), plan::BatchRole::time, 0, DType::f32, n_.embed_dim,
                     at_.batch * n_.embed_dim, true,
                     [D = n_.embed_dim, later = k * n_.lead_time](double hours, float* to) {
                       fourier_code(static_cast<double>(static_cast<float>(hours + later)), kTimes, D, to);
                     }});
      out.back().step = k;
    }
    return out;
  }
  // The view in the first step's slot, though a later step's slot may hold it.
  void fetched(const plan::BatchTensor& t, const plan::View& v) {
    const plan::View own = v.of_before(-v.back);
    if (t.role == plan::BatchRole::input) encoder_->set_input(own);
    if (t.role == plan::BatchRole::target) decoder_->set_target(own);
    if (t.role == plan::BatchRole::mask) decoder_->set_mask(own);
    if (t.role == plan::BatchRole::time) times_[t.step] = own;
  }

  std::vector<plan::Stream> feedback() const override {
    if (!e_.spec.reads_predictions()) return {};
    return {{"prediction", decoder_->index(), 0, n_.fp32_ends ? DType::f32 : e_.amp,
             at_.rows * n_.out_channels * n_.patch_size * n_.patch_size}};
  }
  plan::View predicted() const override { return decoder_->predicted(); }
  void before(const plan::View& v) override {
    encoder_->set_before(v);
    encoder_->set_time(times_.at(e_.roll.step));
  }
  void gradient(const plan::View& v) override {
    encoder_->set_before_gradient(v), decoder_->set_next_gradient(v);
  }

 private:
  Emission& e_;
  const AuroraSpec n_;
  const Sharding& at_;
  Encoder* encoder_;
  Decoder* decoder_;
  std::map<int32_t, plan::View> times_;  // by step
};

class Aurora : public Net {
 public:
  Aurora(const AuroraSpec& n, Emission& e, const Sharding& at)
      : n_(n),
        e_(e),
        at_(at),
        read_(image_read(n, n.patch_size)),
        grids_(e, at, finest(n), n.encoder_depths.size()) {
    const std::vector<SwinItem> list = items(n);
    Encoder* const encoder = add_part(std::make_unique<Encoder>(e, grids_.patches(), n));
    for (const SwinItem& item : list) add(item);
    Decoder* const decoder = add_part(std::make_unique<Decoder>(here(), e, grids_.patches(), n));
    add_streams(list);
    ends_ = std::make_unique<Ends>(e, n, grids_.patches(), encoder, decoder);
    batch_ = ends_->batch();
    metrics_ = image_metrics(image_predicted(n, n.patch_size));
  }
  plan::ImageAttrs fetch() const override { return image_attrs(read_, grids_.patches()); }
  void fetched(size_t tensor, const plan::View& v) override { ends_->fetched(batch_[tensor], v); }
  RollOut* roll_out() override { return ends_.get(); }

 private:
  // ---- parts and streams ----

  void add(const SwinItem& item) {
    const int64_t width = n_.embed_dim << item.resolution;
    if (item.kind == SwinItem::Kind::block) {
      const int64_t stage = item.encoder
                                ? item.resolution
                                : static_cast<int64_t>(n_.encoder_depths.size()) - 1 - item.resolution;
      const SwinBlockShape shape{.width = width,
                                 .heads = n_.encoder_num_heads[item.resolution],
                                 .hidden = n_.mlp_ratio * width,
                                 .condition = n_.embed_dim,
                                 .eps = n_.norm_eps,
                                 .last = item.last,
                                 .drops = n_.drop_path > 0,
                                 .drop_path = drop_path(item)};
      add_part(swin_block(here(), block_path(blocks_++), block_name(item.encoder, stage, item.of), e_,
                          grids_.sharding(item.resolution), grids_.windows(item.resolution, item.shifted()),
                          shape));
    } else if (item.kind == SwinItem::Kind::merge) {
      const std::string i = std::to_string(item.resolution);
      add_part(patch_merging(here(), "merge" + i, "backbone.encoder_layers." + i + ".downsample", e_,
                             grids_.sharding(item.resolution + 1), grids_.neighbours(item.resolution), width,
                             skips(item), n_.norm_eps));
      merges_[item.resolution] = here() - 1;
    } else {
      const int64_t stage = static_cast<int64_t>(n_.encoder_depths.size()) - 1 - item.resolution;
      add_part(patch_splitting(here(), "split" + std::to_string(stage),
                               "backbone.decoder_layers." + std::to_string(stage) + ".upsample", e_,
                               grids_.sharding(item.resolution - 1), grids_.neighbours(item.resolution - 1),
                               width, has_skip(n_, item), n_.norm_eps));
    }
  }

  // Grows linearly from 0 in the first block of encoder and decoder to net.drop_path in the last.
  double drop_path(const SwinItem& block) const {
    const std::vector<int64_t>& depths = block.encoder ? n_.encoder_depths : n_.decoder_depths;
    const auto stages = static_cast<int64_t>(depths.size());
    const int64_t stage = block.encoder ? block.resolution : stages - 1 - block.resolution;
    const int64_t before = std::accumulate(depths.begin(), depths.begin() + stage, block.of),
                  all = std::accumulate(depths.begin(), depths.end(), int64_t{0});
    return all > 1 ? n_.drop_path * static_cast<double>(before) / static_cast<double>(all - 1) : 0;
  }

  // One to the split, and from the finest resolution one to the head
  int skips(const SwinItem& merge) const {
    const auto stages = static_cast<int64_t>(n_.encoder_depths.size());
    return (merge.resolution + 2 < stages ? 1 : 0) + (merge.resolution == 0 ? 1 : 0);
  }

  // Ordered by the part that reads them; a split's skip connection comes before the head's.
  void add_streams(const std::vector<SwinItem>& list) {
    int conditioned = 0;  // part that computes the conditioning
    int64_t resolution = 0;
    const auto elements = [&](int64_t r) { return at_.batch * grids_.own_tokens(r) * (n_.embed_dim << r); };
    for (int32_t to = 1; to < here(); ++to) {
      const SwinItem* const item = to + 1 < here() ? &list[to - 1] : nullptr;
      if (item && item->kind == SwinItem::Kind::split && has_skip(n_, *item))
        streams_.push_back(
            {"skip", merges_.at(item->resolution - 1), to, DType::f32, elements(item->resolution - 1)});
      streams_.push_back({"x" + std::to_string(resolution), to - 1, to, DType::f32, elements(resolution)});
      if (item && item->kind == SwinItem::Kind::block) {
        streams_.push_back({"condition", conditioned, to, DType::f32, n_.embed_dim});
        conditioned = to;
      }
      if (item && item->kind == SwinItem::Kind::merge) ++resolution;
      if (item && item->kind == SwinItem::Kind::split) --resolution;
    }
    const auto finest = merges_.find(0);
    streams_.push_back(
        {"head_skip", finest == merges_.end() ? 0 : finest->second, here() - 1, DType::f32, elements(0)});
  }

  const AuroraSpec n_;
  Emission& e_;
  const Sharding& at_;
  const ImageShape read_;
  SwinGrids grids_;
  int64_t blocks_ = 0;
  std::map<int64_t, int32_t> merges_;
  std::unique_ptr<Ends> ends_;
};

}  // namespace
}  // namespace aurora

std::unique_ptr<Net> make_net(const AuroraSpec& n, Emission& e, const Sharding& at) {
  return std::make_unique<aurora::Aurora>(n, e, at);
}

std::vector<plan::Part> parts_of(const AuroraSpec& n) {
  return swin_parts(aurora::items(n), false, true);
}

NetLimits limits_of(const AuroraSpec& n) {
  return {.tp = {{"net.encoder_num_heads[0]", n.encoder_num_heads[0]},
                 {"the MLP's width", n.mlp_ratio * n.embed_dim}},
          .kv_heads = n.encoder_num_heads[0],
          .tokens = n.tokens(),
          .bands = coarser(aurora::finest(n).grid, static_cast<int64_t>(n.encoder_depths.size()) - 1)[1],
          .inner_parts = static_cast<int64_t>(aurora::items(n).size()),
          .no_sequence = "cannot cut an aurora's rows: its windows gather them",
          .attends = false};
}

}  // namespace isobar::nets
