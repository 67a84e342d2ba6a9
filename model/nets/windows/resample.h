// Between the resolutions of a Swin U-Net (Liu 2021; Bodnar 2024). A stream whose y waits is added first.
//
//   PatchMerging   x [B,C,H,W,D] -> four neighbours side by side, zeros where a size is odd [.., 4D] ->
//   LayerNorm ->
//           linear -> [B,C,H/2,W/2,2D]; its input goes on as up to two skip connections
//   PatchSplitting   x [.., D] -> linear -> four neighbours [B,C,2H,2W,D/2], cropped -> LayerNorm -> linear,
//   added to
//           the skip connection where there is one
#pragma once
#include <memory>
#include <string>

#include "model/nets/net.h"
#include "model/nets/windows/rows.h"

namespace isobar::nets {

/// `at`: of the coarse grid. `order`: inside, four rows for each coarse one; outside, the fine grid.
std::unique_ptr<NetPart> patch_merging(int index, std::string path, std::string name, Emission& e,
                                       const Sharding& at, RowOrder& order, int64_t width, int skips,
                                       double eps);
/// `at`: of the fine grid. `order`: as patch_merging's, of the finer grid. `width`: of the input. A skip
/// connection, if any, is the first input.
std::unique_ptr<NetPart> patch_splitting(int index, std::string path, std::string name, Emission& e,
                                         const Sharding& at, RowOrder& order, int64_t width, bool skip,
                                         double eps);

}  // namespace isobar::nets
