#include "model/base/net_specs/aurora.h"

#include <numeric>
#include <utility>

#include "model/base/spec/spec_check.h"

namespace isobar {

void AuroraSpec::add_rows(KeyRows& to) {
  add_image_rows(
      to, {.in_channels =
               "Channels read: history steps of surface and upper-air fields, then static fields once."});
  to.insert(
      to.end(),
      {{"net.north", north, within("[]", -90, 90, "give the latitude of the grid's first row in degrees"),
        "Latitude of the grid's first row, degrees."},
       {"net.west", west, within("[)", 0, 360, "give the longitude of the grid's first column in degrees"),
        "Longitude of the grid's first column, degrees; the grid may cross 0 E."},
       {"net.spacing", spacing, kGridSpacing, "Step of the grid, degrees."},
       {"net.surf_vars", surf_vars, "Surface fields, in channel order."},
       {"net.static_vars", static_vars, "Static fields, last among the input channels."},
       {"net.atmos_vars", atmos_vars, "Upper-air variables; each has all levels."},
       {"net.levels", levels, kNetSize, "Pressure levels, hPa."},
       {"net.history", history, kNetSize, "Time steps read, oldest first."},
       {"net.lead_time", lead_time, within("(]", 0, 504, "e.g. 6"),
        "Hours from the last step read to the predicted one."},
       {"net.patch_size", patch_size, kNetSize, "Rows and columns of a square patch."},
       {"net.embed_dim", embed_dim, kNetSize, "Width at the finest resolution, doubled at each coarser one."},
       {"net.latent_levels", latent_levels, from_to(2, 1024),
        "Latent levels; one is the surface's. A multiple of the window's levels."},
       {"net.num_heads", num_heads, kNetSize, "Attention heads of the Perceivers."}});
  add_depth_rows(to);
  to.insert(
      to.end(),
      {{"net.window", window, kNetSize, "Attention window: latent levels, patch rows, patch columns."},
       {"net.mlp_ratio", mlp_ratio, kNetSize, "Hidden width over width in the MLPs of backbone and encoder."},
       {"net.dec_mlp_ratio", dec_mlp_ratio, kNetSize, "Hidden width over width in the decoder's MLPs."},
       {"net.norm_eps", norm_eps, positive("use 1e-5"), "Added to the variance in norms."},
       {"net.drop_path", drop_path, within("[)", 0, 1, "e.g. 0.2"),
        "Stochastic depth: probability in the last block, growing from 0 in the first; drawn independently "
        "of the layout."},
       {"net.fp32_ends", fp32_ends,
        "Encoder and decoder stay in fp32 when policy.amp is bf16, as in microsoft-aurora."}});
}

void AuroraSpec::check_lists(const SpecCheck& check) const {
  for (const auto& [names, key] : {std::pair{&surf_vars, "net.surf_vars"}, {&atmos_vars, "net.atmos_vars"}})
    check.that(!names->empty(), key, "names no variable", "name one or more");
  check.that(!levels.empty(), "net.levels", "has no pressure level", "give them in hPa");
  check.that(window.size() == 3, "net.window", "has " + std::to_string(window.size()) + " sizes",
             "give latent levels, patches down and across, e.g. [2, 6, 12]");
  check_resolutions_count(2, check);
}

void AuroraSpec::check(const SpecCheck& check) const {
  check_resolutions(check);
  check.that(drop_path == 0 || std::accumulate(encoder_depths.begin(), encoder_depths.end(), int64_t{0}) ==
                                   std::accumulate(decoder_depths.begin(), decoder_depths.end(), int64_t{0}),
             "net.drop_path",
             "grows from block to block alike in encoder and decoder, which have not as many",
             "give as many blocks in net.decoder_depths, or leave it out");
  check.that(!fp32_ends || check.s.policy.amp != Amp::fp16, "net.fp32_ends",
             "is for policy.amp bf16: fp16's loss is scaled where the decoder's type says so",
             "set policy.amp: bf16, or leave it out");
  check.that(latent_levels % window[0] == 0, "net.latent_levels",
             "is no multiple of " + std::to_string(window[0]) + ", a window's levels (net.window)",
             "give a multiple");
  check.that(embed_dim % 4 == 0 && embed_dim % num_heads == 0, "net.embed_dim",
             "is not divided by 4 and by net.num_heads", "e.g. 256 with 8 heads");
  check.that(north - spacing * static_cast<double>(img_height - 1) >= -90 - 1e-6 * spacing, "net.img_height",
             "has rows beyond the pole", "give fewer, or a smaller net.spacing");
  check.that(spacing * static_cast<double>(img_width - 1) < 360, "net.img_width",
             "goes round the earth more than once", "give fewer columns");
  const int64_t in = history * fields() + static_fields();
  check.that(
      in_channels == in, "net.in_channels",
      "is " + std::to_string(in_channels) + ", and the variables come to " + std::to_string(in) +
          " (net.history steps of surface fields and of each upper-air one's levels, then static ones)",
      "give that");
  check.that(
      out_channels == fields(), "net.out_channels",
      "is " + std::to_string(out_channels) + ", and a step has " + std::to_string(fields()) + " fields",
      "give that");
  check.that(history * tokens() * embed_dim < (int64_t{1} << 40), "net.img_height",
             "and the other sizes come to more than can be counted", "make the grid smaller");
}

RoughSize AuroraSpec::rough_size(bool) const {
  const auto real = [](int64_t v) { return static_cast<double>(v); };
  RoughSize all = rough_size_of_blocks(tokens());
  all.sample += real(patches()) * real(pressure_levels()) * real(embed_dim) * (20 + 4 * real(dec_mlp_ratio));
  return all;
}

}  // namespace isobar
