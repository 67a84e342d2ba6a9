#include "model/base/net_specs/parts/resolutions.h"

#include <string>

#include "model/base/spec/spec_check.h"

namespace isobar {

void Resolutions::add_depth_rows(KeyRows& to) {
  to.insert(to.end(),
            {{"net.encoder_depths", encoder_depths, kNetSize,
              "Blocks by resolution, finest first; 2 to 8 resolutions."},
             {"net.encoder_num_heads", encoder_num_heads, kNetSize,
              "Heads by resolution, finest first; the decoder reverses them."},
             {"net.decoder_depths", decoder_depths, kNetSize, "Blocks by resolution, coarsest first."}});
}

void Resolutions::check_resolutions_count(size_t least, const SpecCheck& check) const {
  check.that(encoder_depths.size() >= least && encoder_depths.size() <= 8, "net.encoder_depths",
             "has " + std::to_string(encoder_depths.size()) + " resolutions",
             "give " + std::to_string(least) + " to 8");
}

void Resolutions::check_resolutions(const SpecCheck& check) const {
  const auto same = [&](const std::vector<int64_t>& list, const char* key) {
    check.that(list.size() == encoder_depths.size(), key,
               "has " + std::to_string(list.size()) + " numbers, and net.encoder_depths " +
                   std::to_string(encoder_depths.size()),
               "give one a resolution");
  };
  same(encoder_num_heads, "net.encoder_num_heads");
  same(decoder_depths, "net.decoder_depths");
  check.that(img_height % patch_size == 0 && img_width % patch_size == 0, "net.patch_size",
             "does not divide the grid of " + std::to_string(img_height) + " x " + std::to_string(img_width),
             "crop the grid (net.img_height; Aurora drops the southern row)");
  for (size_t i = 0; i < encoder_num_heads.size(); ++i)
    check.that((embed_dim << i) % encoder_num_heads[i] == 0, "net.encoder_num_heads",
               "does not divide the width " + std::to_string(embed_dim << i) + " of its resolution",
               "double the heads with the width, e.g. [4, 8, 16]");
}

RoughSize Resolutions::rough_size_of_blocks(int64_t tokens) const {
  const auto real = [](int64_t v) { return static_cast<double>(v); };
  RoughSize all;
  double width = real(embed_dim), rows = real(tokens);
  for (size_t i = 0; i < encoder_depths.size(); ++i, width *= 2, rows /= 4) {
    const size_t mirrored = decoder_depths.size() - 1 - i;
    const double blocks =
        real(encoder_depths[i]) + (mirrored < decoder_depths.size() ? real(decoder_depths[mirrored]) : 0);
    all.weights += blocks * (4 + 2 * real(mlp_ratio)) * width * width;
    all.sample += blocks * (10 + 3 * real(mlp_ratio)) * width * rows;
  }
  return all;
}

}  // namespace isobar
