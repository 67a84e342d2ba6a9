#include "model/nets/windows/swin_unet.h"

#include <tuple>

#include "model/nets/transformer/block.h"

namespace isobar::nets {

std::vector<SwinItem> swin_items(const std::vector<int64_t>& encoder_depths,
                                 const std::vector<int64_t>& decoder_depths) {
  using Kind = SwinItem::Kind;
  const auto stages = static_cast<int64_t>(encoder_depths.size());
  std::vector<SwinItem> out;
  for (int64_t i = 0; i < stages; ++i) {
    for (int64_t j = 0; j < encoder_depths[i]; ++j) out.push_back({Kind::block, i, j, true, false});
    if (i + 1 < stages) out.push_back({Kind::merge, i, 0, true, false});
  }
  for (int64_t i = 0; i < stages; ++i) {
    const int64_t resolution = stages - 1 - i;
    for (int64_t j = 0; j < decoder_depths[i]; ++j) out.push_back({Kind::block, resolution, j, false, false});
    if (i + 1 < stages) out.push_back({Kind::split, resolution, 0, false, false});
  }
  for (size_t i = out.size(); i-- > 0;)
    if (out[i].kind == Kind::block) {
      out[i].last = true;
      break;
    }
  return out;
}

std::vector<plan::Part> swin_parts(const std::vector<SwinItem>& items, bool waits, bool own_last) {
  std::vector<plan::Part> parts{{"embed", "embed", 0}};
  std::map<std::tuple<int64_t, bool, bool>, int32_t> alike;  // by resolution, shifted, a y waits before it
  int64_t block = 0, splits = 0;
  bool y = waits;  // of the embedding
  for (const SwinItem& item : items) {
    const auto here = static_cast<int32_t>(parts.size());
    if (item.kind == SwinItem::Kind::block) {
      const auto [first, fresh] = alike.try_emplace({item.resolution, item.shifted(), y}, here);
      const bool own = item.last && own_last;
      parts.push_back({own ? "last_block" : "block", block_path(block++), own ? here : first->second});
      if (own && fresh) alike.erase(first);
    } else if (item.kind == SwinItem::Kind::merge) {
      parts.push_back({"merge", "merge" + std::to_string(item.resolution), here});
    } else {
      parts.push_back({"split", "split" + std::to_string(splits++), here});
    }
    y = waits && item.kind == SwinItem::Kind::block;
  }
  parts.push_back({"head", "head", static_cast<int32_t>(parts.size())});
  return parts;
}

Sizes3 coarser(Sizes3 finest, int64_t resolution) {
  for (int64_t i = 0; i < resolution; ++i) finest = Neighbours{finest, 1}.coarse();
  return finest;
}

namespace {

std::vector<Sizes3> grids_from(const Sizes3& finest, size_t resolutions) {
  std::vector<Sizes3> out;
  for (size_t i = 0; i < resolutions; ++i) out.push_back(coarser(finest, static_cast<int64_t>(i)));
  return out;
}

}  // namespace

SwinGrids::SwinGrids(Emission& e, const Sharding& at, const WindowGrid& finest, size_t resolutions)
    : e_(e), at_(at), finest_(finest), grids_(grids_from(finest.grid, resolutions)), patches_(cut(0, 1)) {}

Bands SwinGrids::bands(int64_t resolution) const {
  std::vector<int64_t> rows;
  for (const Sizes3& grid : grids_) rows.push_back(grid[1]);
  return bands_at(rows, static_cast<size_t>(resolution), at_.cp);
}

Sizes3 SwinGrids::own_grid(int64_t resolution) const {
  Sizes3 grid = grids_[static_cast<size_t>(resolution)];
  grid[1] = bands(resolution).rows(at_.at.cp);
  return grid;
}

int64_t SwinGrids::own_tokens(int64_t resolution) const {
  const Sizes3 grid = own_grid(resolution);
  return grid[0] * grid[1] * grid[2];
}

// `levels`: of the grid; 1: of its patches
Sharding SwinGrids::cut(int64_t resolution, int64_t levels) const {
  const Bands of = bands(resolution);
  std::vector<int64_t> parts;
  for (int64_t r = 0; r < at_.cp; ++r)
    parts.push_back(levels * of.rows(r) * grids_[static_cast<size_t>(resolution)][2]);
  return at_.with_parts(std::move(parts));
}

const Sharding& SwinGrids::sharding(int64_t resolution) {
  return shardings_.try_emplace(resolution, cut(resolution, finest_.grid[0])).first->second;
}

Windows& SwinGrids::windows(int64_t resolution, bool shifted) {
  auto& made = windows_[{resolution, shifted}];
  if (made) return *made;
  const std::string name = std::string(shifted ? "shifted_windows" : "windows") + std::to_string(resolution);
  WindowGrid of = finest_;
  of.grid = grids_[static_cast<size_t>(resolution)], of.shifted = shifted;
  made = at_.cp == 1 ? std::make_unique<Windows>(e_.b, name, of, at_.batch)
                     : std::make_unique<Windows>(e_.b, name, of, at_.batch, bands(resolution), at_.at.cp,
                                                 at_.cp_group);
  return *made;
}

RowOrder& SwinGrids::neighbours(int64_t resolution) {
  auto& made = neighbours_[resolution];
  if (!made) {
    const Neighbours of{own_grid(resolution), at_.batch};
    made = std::make_unique<RowOrder>(
        e_.b, "neighbours" + std::to_string(resolution), 4 * at_.batch * own_tokens(resolution + 1),
        at_.batch * own_tokens(resolution), [of] { return of.from(); }, [of] { return of.to(); });
  }
  return *made;
}

}  // namespace isobar::nets
