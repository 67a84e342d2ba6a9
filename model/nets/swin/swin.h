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
#pragma once
#include <memory>
#include <vector>

#include "model/nets/layout/legal_layout.h"
#include "model/nets/net.h"

namespace isobar::nets {

std::unique_ptr<Net> make_net(const SwinSpec& n, Emission& e, const Sharding& at);
std::vector<plan::Part> parts_of(const SwinSpec& n);
inline SwinSpec distinct_parts(SwinSpec n) {
  return n;
}
NetLimits limits_of(const SwinSpec& n);

}  // namespace isobar::nets
