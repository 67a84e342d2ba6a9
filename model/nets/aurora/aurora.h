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
#pragma once
#include <memory>
#include <vector>

#include "model/nets/layout/legal_layout.h"
#include "model/nets/net.h"

namespace isobar::nets {

std::unique_ptr<Net> make_net(const AuroraSpec& n, Emission& e, const Sharding& at);
std::vector<plan::Part> parts_of(const AuroraSpec& n);
inline AuroraSpec distinct_parts(AuroraSpec n) {
  return n;
}
NetLimits limits_of(const AuroraSpec& n);

}  // namespace isobar::nets
