#include "model/base/net_specs/swin.h"

#include <algorithm>
#include <string>

#include "model/base/spec/spec_check.h"

namespace isobar {
namespace {

constexpr int64_t kMostWindowPatches = 1 << 15;  // 32 bits count their pairs

}  // namespace

void SwinSpec::add_rows(KeyRows& to) {
  add_image_rows(to);
  to.insert(to.end(), {{"net.patch_size", patch_size, kNetSize, "Rows and columns of a square patch."},
                       {"net.embed_dim", embed_dim, kNetSize,
                        "Width at the finest resolution, doubled at each coarser one."}});
  add_depth_rows(to);
  to.insert(to.end(),
            {{"net.window", window, kNetSize, "Attention window: patch rows, patch columns."},
             {"net.periodic", periodic,
              "Longitudes are a circle: shifted windows continue from the last column to the first."},
             {"net.relative_position_bias", relative_position_bias,
              "Attention in windows adds a learned bias to its scores, by head and distance of two patches."},
             {"net.mlp_ratio", mlp_ratio, kNetSize, "Hidden width of a block's MLP over embed_dim."},
             {"net.norm_eps", norm_eps, positive("use 1e-5"), "Added to the variance in norms."}});
}

void SwinSpec::check_lists(const SpecCheck& check) const {
  check_resolutions_count(1, check);
  check.that(window.size() == 2, "net.window", "has " + std::to_string(window.size()) + " sizes",
             "give patches down and across, e.g. [6, 12]");
}

void SwinSpec::check(const SpecCheck& check) const {
  check_resolutions(check);
  const int64_t down = std::min(window[0], img_height / patch_size),
                across = std::min(window[1], img_width / patch_size);
  check.that(
      !relative_position_bias || down * across <= kMostWindowPatches, "net.window",
      "has " + std::to_string(down * across) + " patches, and a bias for each pair of them is held",
      "give at most " + std::to_string(kMostWindowPatches) + ", or set net.relative_position_bias to false");
}

RoughSize SwinSpec::rough_size(bool) const {
  const auto real = [](int64_t v) { return static_cast<double>(v); };
  RoughSize all = rough_size_of_blocks(tokens());
  const double ends = 2 * real(std::max(in_channels, out_channels)) * real(patch_size * patch_size);
  all.weights += real(embed_dim) * (ends + real(tokens()));
  all.sample += real(tokens()) * ends;
  return all;
}

}  // namespace isobar
