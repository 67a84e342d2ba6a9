// The shape that Swin U-Nets share (Cao 2021, Bodnar 2024): blocks at each resolution down to the coarsest
// and up again, patch merging and splitting between them.
//
//   for (const SwinItem& i : swin_items({2, 2, 1}, {1, 2, 2})) …   // between the net's ends, in order
//   SwinGrids grids(e, at, {.grid = {1, 90, 180}, .window = {1, 6, 12}}, 3);
//   grids.windows(1, true), grids.neighbours(0), grids.sharding(2)
//
// Context parallelism gives each rank a band of latitudes at every resolution (bands.h). Parts share the
// constants of a resolution.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/nets/windows/attention.h"
#include "model/plan/plan.h"

namespace isobar::nets {

struct SwinItem {
  enum class Kind : uint8_t { block, merge, split } kind;
  int64_t resolution;  // of its input; 0 is the finest
  int64_t of;          // index within its stage, for blocks
  bool encoder, last;  // last: the net's last block
  bool shifted() const { return of % 2 == 1; }
};
/// Blocks by resolution: of the encoder finest first, of the decoder coarsest first.
std::vector<SwinItem> swin_items(const std::vector<int64_t>& encoder_depths,
                                 const std::vector<int64_t>& decoder_depths);
/// embed, block00, …, merge0, …, split0, …, head. Blocks are the same if resolution and shift are, and what
/// they begin with: `waits` if a y follows each block (Flow). `own_last`: the last block differs.
std::vector<plan::Part> swin_parts(const std::vector<SwinItem>& items, bool waits, bool own_last);

class SwinGrids {
 public:
  /// `finest`: its shift means nothing.
  SwinGrids(Emission& e, const Sharding& at, const WindowGrid& finest, size_t resolutions);
  int64_t own_tokens(int64_t resolution) const;  // of a sample, on this rank
  const Sharding& sharding(int64_t resolution);
  const Sharding& patches() const { return patches_; }  // of the finest resolution, one level of them
  Windows& windows(int64_t resolution, bool shifted);
  RowOrder& neighbours(int64_t resolution);  // `resolution`: the finer of the two

 private:
  Bands bands(int64_t resolution) const;
  Sizes3 own_grid(int64_t resolution) const;
  Sharding cut(int64_t resolution, int64_t levels) const;

  Emission& e_;
  const Sharding& at_;
  const WindowGrid finest_;
  const std::vector<Sizes3> grids_;  // by resolution
  const Sharding patches_;
  std::map<int64_t, Sharding> shardings_;
  std::map<std::pair<int64_t, bool>, std::unique_ptr<Windows>> windows_;
  std::map<int64_t, std::unique_ptr<RowOrder>> neighbours_;
};

/// The grid of that resolution.
Sizes3 coarser(Sizes3 finest, int64_t resolution);

}  // namespace isobar::nets
