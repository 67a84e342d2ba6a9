// Rough size of all tensors of a run.
#include <algorithm>
#include <cstdio>

#include "model/base/validate_parts.h"

namespace isobar {
namespace {

double real(int64_t v) {
  return static_cast<double>(v);
}

struct Numbers {  // roughly
  double weights;
  double sample;  // activations of one sample
};

// Blocks on `tokens` of this width, between ends that map each token to and from `ends` numbers.
template <class Net>
Numbers numbers_of_blocks(const Net& n, double ends, bool unfused) {
  const double width = real(n.embed_dim), tokens = real(n.tokens()), depth = real(n.blocks());
  const double hidden = real(n.hidden());
  const double wide = std::is_same_v<Net, UnetSpec> ? 4 : 1;  // weights of blocks of twice the width
  const double scores = unfused ? real(n.num_heads) * tokens * tokens : 0;
  return {wide * depth * width * (4 * width + 3 * hidden) + width * (ends + tokens),
          tokens * (ends + depth * (8 * width + 3 * hidden)) + depth * scores};
}

template <class Net>
Numbers numbers_of(const Net& n, bool unfused) {
  if constexpr (std::is_base_of_v<Images, Net>)
    return numbers_of_blocks(
        n, 2 * real(std::max(n.in_channels, n.out_channels)) * real(n.pixels()) / real(n.tokens()), unfused);
  else
    return numbers_of_blocks(n, 2 * real(n.vocab_size), unfused);
}

Numbers numbers_of(const MlpSpec& n, bool) {
  Numbers all{};
  double in = real(n.in_features);
  for (const int64_t width : n.hidden) {
    all.weights += (in + 1) * real(width);
    all.sample += 4 * real(width);
    in = real(width);
  }
  all.weights += (in + 1) * real(n.out_features);
  return all;
}

template <class Net>  // a Swin U-Net
Numbers numbers_of_resolutions(const Net& n) {
  Numbers all{};
  double width = real(n.embed_dim), tokens = real(n.tokens());
  for (size_t i = 0; i < n.encoder_depths.size(); ++i, width *= 2, tokens /= 4) {
    const size_t mirrored = n.decoder_depths.size() - 1 - i;
    const double blocks = real(n.encoder_depths[i]) +
                          (mirrored < n.decoder_depths.size() ? real(n.decoder_depths[mirrored]) : 0);
    all.weights += blocks * (4 + 2 * real(n.mlp_ratio)) * width * width;
    all.sample += blocks * (10 + 3 * real(n.mlp_ratio)) * width * tokens;
  }
  return all;
}

Numbers numbers_of(const SwinSpec& n, bool) {
  Numbers all = numbers_of_resolutions(n);
  const double ends = 2 * real(std::max(n.in_channels, n.out_channels)) * real(n.patch_size * n.patch_size);
  all.weights += real(n.embed_dim) * (ends + real(n.tokens()));
  all.sample += real(n.tokens()) * ends;
  return all;
}

Numbers numbers_of(const AuroraSpec& n, bool) {
  Numbers all = numbers_of_resolutions(n);
  all.sample +=
      real(n.patches()) * real(n.pressure_levels()) * real(n.embed_dim) * (20 + 4 * real(n.dec_mlp_ratio));
  return all;
}

Numbers numbers_of(const RegionalGnnSpec& n, bool) {
  const double D = real(n.latent_size), H = real(n.mlp_hidden_size), layers = real(n.mlp_num_hidden_layers);
  const double steps = real(n.num_gnn_layers), mlp = H * (D + (layers - 1) * H);
  const double down = real(n.downstream_box().points()), up = real(n.upstream_box().points());
  const double edges = real(n.intra_edges()) + real(n.boundary_edges());
  const double row = 3 * D + 2 * layers * H;  // of an MLP: its input, its layers, its output
  return {steps * (10 * D * H + 4 * mlp) + (2 * real(n.in_channels) + 6) * H + 5 * mlp,
          (steps + 1) * (edges + 2 * down + up) * row + real(n.in_channels) * (down + up)};
}

Numbers numbers_of(const GraphcastSpec& n, bool) {
  const double D = real(n.latent_size), H = real(n.mlp_hidden_size), layers = real(n.mlp_num_hidden_layers);
  const double steps = real(n.num_gnn_layers), mlp = H * (D + (layers - 1) * H);
  const double grid = real(n.pixels()), mesh = real(n.mesh_nodes()), row = 3 * D + 2 * layers * H;
  return {(steps + 2) * (5 * D * H + 2 * mlp) + 2 * (real(n.in_channels) + 9) * H +
              (real(n.out_channels) + 8 * D) * H,
          (steps * (real(n.mesh_edges()) + mesh) + 2 * (3 * grid + mesh) + 5 * grid) * row +
              2 * real(n.in_channels) * grid};
}

}  // namespace

// Bytes of all tensors on a rank if nothing were sharded, roughly and in floating point. Whatever passes can
// be counted in 64 bits.
void refuse_astronomical(const RunSpec& s, const SpecCheck& check) {
  const auto [weights, sample] =
      s.net.visit([&](const auto& n) { return numbers_of(n, s.policy.attention == "unfused"); });
  const double read = real(s.net.sample_numbers()) / 2;
  const double batches = real(std::max<int64_t>(1, s.data.workers) * s.data.prefetch + 2);
  const double batch = real(s.train.global_batch) / real(s.layout.dp);
  const double bytes = 16 * weights + batch * (8 * sample + 8 * batches * read);
  constexpr double kMost = 0x1p60;
  if (bytes <= kMost) return;
  char text[96];
  std::snprintf(text, sizeof text, "needs about %.1e bytes of tensors, above %.1e (2^60)", bytes, kMost);
  const bool of_batch = 16 * weights + 8 * (sample + batches * read) <= kMost;
  check.that(false, of_batch ? "train.global_batch" : "net", text,
             of_batch ? "give a smaller batch" : "make the net or its samples smaller");
}

}  // namespace isobar
