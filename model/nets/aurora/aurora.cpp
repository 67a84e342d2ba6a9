#include "model/nets/aurora/aurora.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "model/nets/aurora/decoder.h"
#include "model/nets/aurora/encoder.h"
#include "model/nets/aurora/ends.h"
#include "model/nets/aurora/resample.h"
#include "model/nets/aurora/swin.h"
#include "model/nets/transformer.h"

namespace isobar {
namespace aurora {
namespace {

// The net as a list, shared by parts_of() and the net itself
struct Item {
  enum class Kind : uint8_t { block, merge, split } kind;
  int64_t resolution;  // of its input; 0 is the finest
  int64_t of;          // index within its stage, for blocks
  bool encoder, last;  // last: the net's last block
};

std::vector<Item> items(const AuroraSpec& n) {
  const auto stages = static_cast<int64_t>(n.encoder_depths.size());
  std::vector<Item> out;
  for (int64_t i = 0; i < stages; ++i) {
    for (int64_t j = 0; j < n.encoder_depths[i]; ++j) out.push_back({Item::Kind::block, i, j, true, false});
    if (i + 1 < stages) out.push_back({Item::Kind::merge, i, 0, true, false});
  }
  for (int64_t i = 0; i < stages; ++i) {
    const int64_t resolution = stages - 1 - i;
    for (int64_t j = 0; j < n.decoder_depths[i]; ++j)
      out.push_back({Item::Kind::block, resolution, j, false, false});
    if (i + 1 < stages) out.push_back({Item::Kind::split, resolution, 0, false, false});
  }
  for (size_t i = out.size(); i-- > 0;)
    if (out[i].kind == Item::Kind::block) {
      out[i].last = true;
      break;
    }
  return out;
}

// The published model adds a skip connection after every split but the first; after the last block the head
// concatenates it.
bool has_skip(const AuroraSpec& n, const Item& split) {
  return split.resolution + 1 < static_cast<int64_t>(n.encoder_depths.size());
}

Sizes3 grid_at(const AuroraSpec& n, int64_t resolution) {
  Sizes3 grid{n.latent_levels, n.img_height / n.patch_size, n.img_width / n.patch_size};
  for (int64_t i = 0; i < resolution; ++i) grid = Neighbours{grid, 1}.coarse();
  return grid;
}

class Aurora : public Net {
 public:
  Aurora(const AuroraSpec& n, Emission& e, const Sharding& at)
      : n_(n), e_(e), at_(at), read_(image_read(n, n.patch_size)) {
    const std::vector<Item> list = items(n);
    auto encoder = std::make_unique<Encoder>(e, patches(), n);
    encoder_ = encoder.get();
    parts_.push_back(std::move(encoder));
    for (const Item& item : list) add(item);
    auto decoder = std::make_unique<Decoder>(here(), e, patches(), n);
    decoder_ = decoder.get();
    parts_.push_back(std::move(decoder));
    add_streams(list);
    ends_ = std::make_unique<Ends>(e, n, patches(), encoder_, decoder_);
    batch_ = ends_->batch();
    metrics_ = image_metrics(image_predicted(n, n.patch_size));
  }
  ImageAttrs fetch() const override { return image_attrs(read_, *patches_); }
  void fetched(size_t tensor, const View& v) override { ends_->fetched(batch_[tensor], v); }
  RollOut* roll_out() override { return ends_.get(); }

 private:
  // ---- bands of latitudes, one for each rank of context parallelism ----

  Bands bands(int64_t resolution) const {
    std::vector<int64_t> rows;
    for (size_t i = 0; i < n_.encoder_depths.size(); ++i)
      rows.push_back(grid_at(n_, static_cast<int64_t>(i))[1]);
    return bands_at(rows, static_cast<size_t>(resolution), at_.cp);
  }
  Sizes3 own_grid(int64_t resolution) const {
    Sizes3 grid = grid_at(n_, resolution);
    grid[1] = bands(resolution).rows(at_.at.cp);
    return grid;
  }
  int64_t own_tokens(int64_t resolution) const {
    const Sizes3 grid = own_grid(resolution);
    return grid[0] * grid[1] * grid[2];
  }
  // `levels`: of the grid; 1: of its patches
  Sharding cut(int64_t resolution, int64_t levels) const {
    const Bands of = bands(resolution);
    std::vector<int64_t> parts;
    for (int64_t r = 0; r < at_.cp; ++r) parts.push_back(levels * of.rows(r) * grid_at(n_, resolution)[2]);
    return at_.with_parts(std::move(parts));
  }
  const Sharding& sharding(int64_t resolution) {
    return shardings_.try_emplace(resolution, cut(resolution, n_.latent_levels)).first->second;
  }
  const Sharding& patches() {
    if (!patches_) patches_ = std::make_unique<const Sharding>(cut(0, 1));
    return *patches_;
  }

  // ---- parts and streams ----

  int here() const { return static_cast<int>(parts_.size()); }

  void add(const Item& item) {
    const int64_t width = n_.embed_dim << item.resolution;
    if (item.kind == Item::Kind::block) {
      const int64_t stage = item.encoder
                                ? item.resolution
                                : static_cast<int64_t>(n_.encoder_depths.size()) - 1 - item.resolution;
      const SwinBlock::Shape shape{.width = width,
                                   .heads = n_.encoder_num_heads[item.resolution],
                                   .hidden = n_.mlp_ratio * width,
                                   .condition = n_.embed_dim,
                                   .eps = n_.norm_eps,
                                   .last = item.last,
                                   .drops = n_.drop_path > 0,
                                   .drop_path = drop_path(item)};
      parts_.push_back(std::make_unique<SwinBlock>(
          here(), block_path(blocks_++), block_name(item.encoder, stage, item.of), e_,
          sharding(item.resolution), windows(item.resolution, item.of % 2 == 1), shape));
    } else if (item.kind == Item::Kind::merge) {
      const std::string i = std::to_string(item.resolution);
      parts_.push_back(std::make_unique<Merge>(
          here(), "merge" + i, "backbone.encoder_layers." + i + ".downsample", e_,
          sharding(item.resolution + 1), neighbours(item.resolution), width, skips(item), n_.norm_eps));
      merges_[item.resolution] = here() - 1;
    } else {
      const int64_t stage = static_cast<int64_t>(n_.encoder_depths.size()) - 1 - item.resolution;
      parts_.push_back(std::make_unique<Split>(
          here(), "split" + std::to_string(stage),
          "backbone.decoder_layers." + std::to_string(stage) + ".upsample", e_, sharding(item.resolution - 1),
          neighbours(item.resolution - 1), width, has_skip(n_, item), n_.norm_eps));
    }
  }

  // Grows linearly from 0 in the first block of encoder and decoder to net.drop_path in the last.
  double drop_path(const Item& block) const {
    const std::vector<int64_t>& depths = block.encoder ? n_.encoder_depths : n_.decoder_depths;
    const auto stages = static_cast<int64_t>(depths.size());
    const int64_t stage = block.encoder ? block.resolution : stages - 1 - block.resolution;
    const int64_t before = std::accumulate(depths.begin(), depths.begin() + stage, block.of),
                  all = std::accumulate(depths.begin(), depths.end(), int64_t{0});
    return all > 1 ? n_.drop_path * static_cast<double>(before) / static_cast<double>(all - 1) : 0;
  }

  // One to the split, and from the finest resolution one to the head
  int skips(const Item& merge) const {
    const auto stages = static_cast<int64_t>(n_.encoder_depths.size());
    return (merge.resolution + 2 < stages ? 1 : 0) + (merge.resolution == 0 ? 1 : 0);
  }

  // Ordered by the part that reads them; a split's skip connection comes before the head's.
  void add_streams(const std::vector<Item>& list) {
    int conditioned = 0;  // part that computes the conditioning
    int64_t resolution = 0;
    const auto elements = [&](int64_t r) { return at_.batch * own_tokens(r) * (n_.embed_dim << r); };
    for (int32_t to = 1; to < here(); ++to) {
      const Item* const item = to + 1 < here() ? &list[to - 1] : nullptr;
      if (item && item->kind == Item::Kind::split && has_skip(n_, *item))
        streams_.push_back(
            {"skip", merges_.at(item->resolution - 1), to, DType::f32, elements(item->resolution - 1)});
      streams_.push_back({"x" + std::to_string(resolution), to - 1, to, DType::f32, elements(resolution)});
      if (item && item->kind == Item::Kind::block) {
        streams_.push_back({"condition", conditioned, to, DType::f32, n_.embed_dim});
        conditioned = to;
      }
      if (item && item->kind == Item::Kind::merge) ++resolution;
      if (item && item->kind == Item::Kind::split) --resolution;
    }
    const auto finest = merges_.find(0);
    streams_.push_back(
        {"head_skip", finest == merges_.end() ? 0 : finest->second, here() - 1, DType::f32, elements(0)});
  }

  // Constants that all parts of a resolution share
  Windows& windows(int64_t resolution, bool shifted) {
    auto& made = windows_[{resolution, shifted}];
    if (made) return *made;
    const std::string name =
        std::string(shifted ? "shifted_windows" : "windows") + std::to_string(resolution);
    const Sizes3 grid = grid_at(n_, resolution), window{n_.window[0], n_.window[1], n_.window[2]};
    made = at_.cp == 1 ? std::make_unique<Windows>(e_.b, name, grid, window, shifted, at_.batch)
                       : std::make_unique<Windows>(e_.b, name, grid, window, shifted, at_.batch,
                                                   bands(resolution), at_.at.cp, at_.cp_group);
    return *made;
  }
  RowOrder& neighbours(int64_t resolution) {  // `resolution`: the finer of the two
    auto& made = neighbours_[resolution];
    if (!made) {
      const Neighbours of{own_grid(resolution), at_.batch};
      made = std::make_unique<RowOrder>(
          e_.b, "neighbours" + std::to_string(resolution), 4 * at_.batch * own_tokens(resolution + 1),
          at_.batch * own_tokens(resolution), [of] { return of.from(); }, [of] { return of.to(); });
    }
    return *made;
  }

  const AuroraSpec n_;
  Emission& e_;
  const Sharding& at_;
  const ImageShape read_;
  int64_t blocks_ = 0;
  std::map<int64_t, Sharding> shardings_;
  std::unique_ptr<const Sharding> patches_;
  std::map<int64_t, int32_t> merges_;
  std::map<std::pair<int64_t, bool>, std::unique_ptr<Windows>> windows_;
  std::map<int64_t, std::unique_ptr<RowOrder>> neighbours_;
  Encoder* encoder_;
  Decoder* decoder_;
  std::unique_ptr<Ends> ends_;
};

}  // namespace
}  // namespace aurora

namespace {
constexpr int64_t kHalves = 4;  // stages of that placement
}

std::unique_ptr<Net> make_net(const AuroraSpec& n, Emission& e, const Sharding& at) {
  return std::make_unique<aurora::Aurora>(n, e, at);
}

std::vector<Part> parts_of(const AuroraSpec& n) {
  using aurora::Item;
  std::vector<Part> parts{{"embed", "embed", 0}};
  std::map<std::tuple<int64_t, bool>, int32_t> alike;  // by resolution, shifted
  int64_t block = 0;
  for (const Item& item : aurora::items(n)) {
    const auto here = static_cast<int32_t>(parts.size());
    if (item.kind == Item::Kind::block) {
      const auto [first, fresh] = alike.try_emplace({item.resolution, item.of % 2 == 1}, here);
      const bool own = item.last;
      parts.push_back({own ? "last_block" : "block", block_path(block++), own ? here : first->second});
      if (own && fresh) alike.erase(first);
    } else if (item.kind == Item::Kind::merge) {
      parts.push_back({"merge", "merge" + std::to_string(item.resolution), here});
    } else {
      const int64_t stage = static_cast<int64_t>(n.encoder_depths.size()) - 1 - item.resolution;
      parts.push_back({"split", "split" + std::to_string(stage), here});
    }
  }
  parts.push_back({"head", "head", static_cast<int32_t>(parts.size())});
  return parts;
}

std::vector<int32_t> placed_cuts(const AuroraSpec& n, int64_t stages) {
  if (n.placement != StagePlacement::halves || stages != kHalves) return {};
  const std::vector<aurora::Item> list = aurora::items(n);
  const auto first_half =
      std::count_if(list.begin(), list.end(), [](const auto& item) { return item.encoder; });
  const auto inner = static_cast<int32_t>(list.size());
  return {0, 1, 1 + static_cast<int32_t>(first_half), 1 + inner, 2 + inner};
}

NetLimits limits_of(const AuroraSpec& n) {
  return {.tp = {{"net.encoder_num_heads[0]", n.encoder_num_heads[0]},
                 {"the MLP's width", n.mlp_ratio * n.embed_dim}},
          .kv_heads = n.encoder_num_heads[0],
          .tokens = n.tokens(),
          .bands = aurora::grid_at(n, static_cast<int64_t>(n.encoder_depths.size()) - 1)[1],
          .inner_parts = static_cast<int64_t>(aurora::items(n).size()),
          .only_stages = n.placement == StagePlacement::halves ? kHalves : 0,
          .no_sequence = "cannot cut an aurora's rows: its windows gather them",
          .attends = false};
}

}  // namespace isobar
