// A ViT of two resolutions (UnetSpec), the shape of Swin's U-Nets (Cao 2021) and of Aurora's: unequal parts
// and a skip connection.
//
//   embed   image -> x [B,H,W,D]
//   block   × encoder_depth
//   merge   x -> LayerNorm -> four neighbours side by side [B,H/2,W/2,4D] -> linear -> [B,H/2,W/2,2D];
//           x is also split's skip connection
//   block   × bottleneck_depth, of twice the width
//   split   -> LayerNorm -> linear [B,H/2,W/2,4D] -> four neighbours [B,H,W,D], added to the skip connection
//   block   × decoder_depth
//   head    -> image
#pragma once
#include <memory>
#include <vector>

#include "model/nets/layout/legal_layout.h"
#include "model/nets/net.h"

namespace isobar::nets {

std::unique_ptr<Net> make_net(const UnetSpec& n, Emission& e, const Sharding& at);
std::vector<plan::Part> parts_of(const UnetSpec& n);
inline UnetSpec distinct_parts(UnetSpec n) {
  return n;
}
NetLimits limits_of(const UnetSpec& n);

}  // namespace isobar::nets
