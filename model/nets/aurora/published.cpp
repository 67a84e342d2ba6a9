// Aurora's tensors in microsoft-aurora's form (published.h): one qkv, and one weight per variable of a patch
// embedding. Its first files have one weight for all variables, also of the heads [points, variables, D], in
// those nets' order of variables.
#include <algorithm>
#include <optional>
#include <set>

#include "model/nets/aurora/swin.h"
#include "model/nets/kinds.h"
#include "model/nets/transformer/adapter.h"

namespace isobar::nets {
namespace aurora {
namespace {

using Names = std::vector<std::string>;
using Piece = PublishedTensor::Piece;

const Names kFirstSurface = {"2t", "10u", "10v", "msl"}, kFirstStatic = {"lsm", "z", "slt"},
            kFirstUpper = {"z", "u", "v", "t", "q"};

Names operator+(Names a, const Names& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The index in `those` of each of `these`; none if the names differ.
std::optional<std::vector<int64_t>> places_of(const Names& these, const Names& those) {
  if (!std::is_permutation(these.begin(), these.end(), those.begin(), those.end())) return std::nullopt;
  std::vector<int64_t> out;
  for (const std::string& name : these)
    out.push_back(std::find(those.begin(), those.end(), name) - those.begin());
  return out;
}

class Form {
 public:
  explicit Form(const AuroraSpec& n) : n_(n), points_(n.patch_size * n.patch_size) {}

  PublishedForm of(const std::vector<plan::Tensor>& own) {
    form_.program = "microsoft-aurora";
    form_.prefix = "net.";
    form_.adapters = {8, 8, {"backbone.*.attn"}};
    for (const plan::Tensor& t : own) adapted_ |= t.name.ends_with(kLoraA);
    for (size_t i = 0; i < n_.encoder_depths.size(); ++i)
      for (int64_t j = 0; j < n_.encoder_depths[i]; ++j) attention(true, i, j);
    for (size_t i = 0; i < n_.decoder_depths.size(); ++i)
      for (int64_t j = 0; j < n_.decoder_depths[i]; ++j) attention(false, i, j);
    const Names read = n_.surf_vars + n_.static_vars;
    embedding("encoder.surf_token_embeds", read);
    embedding("encoder.atmos_token_embeds", n_.atmos_vars);
    for (const plan::Tensor& t : own)
      if (!taken_.contains(t.name)) form_.tensors.push_back(same_tensor(t));
    earlier_embedding("encoder.surf_token_embeds", read, kFirstSurface + kFirstStatic);
    earlier_embedding("encoder.atmos_token_embeds", n_.atmos_vars, kFirstUpper);
    earlier_head("surf", n_.surf_vars, kFirstSurface);
    earlier_head("atmos", n_.atmos_vars, kFirstUpper);
    return std::move(form_);
  }

 private:
  void attention(bool encoder, size_t stage, int64_t of) {
    const int64_t last = static_cast<int64_t>(n_.encoder_depths.size()) - 1,
                  resolution = encoder ? static_cast<int64_t>(stage) : last - static_cast<int64_t>(stage),
                  D = n_.embed_dim << resolution;
    const std::string attn = block_name(encoder, static_cast<int64_t>(stage), of) + ".attn.";
    for (const bool weight : {true, false}) {
      const std::string kind = weight ? ".weight" : ".bias";
      const int64_t count = weight ? D * D : D;
      PublishedTensor t{attn + "qkv" + kind, {3 * D}, {}};
      if (weight) t.shape.push_back(D);
      for (const char* which : {"q", "k", "v"}) {
        t.pieces.push_back(
            {attn + which + kind, 1, count, 0, 0, static_cast<int64_t>(t.pieces.size()) * count, 0});
        taken_.insert(t.pieces.back().own);
      }
      form_.tensors.push_back(std::move(t));
    }
    if (adapted_) adapters(attn, D);
  }

  // All steps of a roll-out use the first of its list (lora_mode "single")
  void adapters(const std::string& attn, int64_t D) {
    const int64_t rank = form_.adapters.rank;
    const auto of = [&](const std::string& linear, const std::string& own_a, const Names& own_b) {
      const std::string name = attn + linear + ".loras.0.lora_";
      PublishedTensor a{name + "A", {rank, D}, {{own_a, 1, rank * D, 0, 0, 0, 0}}},
          b{name + "B", {static_cast<int64_t>(own_b.size()) * D, rank}, {}};
      for (const std::string& own : own_b)
        b.pieces.push_back({own, 1, D * rank, 0, 0, static_cast<int64_t>(b.pieces.size()) * D * rank, 0});
      for (PublishedTensor* t : {&a, &b}) {
        for (const Piece& p : t->pieces) taken_.insert(p.own);
        form_.tensors.push_back(std::move(*t));
      }
    };
    of("lora_qkv", attn.substr(0, attn.size() - 1) + kLoraA,
       {attn + "q" + kLoraB, attn + "k" + kLoraB, attn + "v" + kLoraB});
    of("lora_proj", attn + "proj" + kLoraA, {attn + "proj" + kLoraB});
  }

  // ---- patch embeddings: [D, variables, history, p, p] here ----

  int64_t of_variable() const { return n_.history * points_; }
  std::vector<int64_t> embedding_shape(int64_t variables) const {
    return {n_.embed_dim, variables, n_.history, n_.patch_size, n_.patch_size};
  }

  /// Our weight's piece for the i-th of `variables` variables
  Piece variable_of(const std::string& own, int64_t i, int64_t variables) const {
    return {own, n_.embed_dim, of_variable(), i * of_variable(), variables * of_variable(), 0, of_variable()};
  }

  void embedding(const std::string& name, const Names& variables) {
    const auto all = static_cast<int64_t>(variables.size());
    for (int64_t i = 0; i < all; ++i) {
      form_.tensors.push_back(
          {name + ".weights." + variables[i], embedding_shape(1), {variable_of(name + ".weight", i, all)}});
      taken_.insert(name + ".weight");
    }
  }

  void earlier_embedding(const std::string& name, const Names& ours, const Names& first) {
    const auto places = places_of(first, ours);
    if (!places) return;
    const auto all = static_cast<int64_t>(first.size());
    PublishedTensor t{name + ".weight", embedding_shape(all), {}};
    for (int64_t i = 0; i < all; ++i) {
      t.pieces.push_back(variable_of(name + ".weight", (*places)[i], all));
      t.pieces.back().first = i * of_variable(), t.pieces.back().stride = all * of_variable();
    }
    form_.earlier.push_back(std::move(t));
  }

  // ---- heads: [p p, D] of each variable here ----

  void earlier_head(const std::string& kind, const Names& ours, const Names& first) {
    if (!places_of(first, ours)) return;
    const auto all = static_cast<int64_t>(first.size());
    for (const bool weight : {true, false}) {
      const int64_t width = weight ? 2 * n_.embed_dim : 1;
      const std::string end = weight ? ".weight" : ".bias";
      PublishedTensor t{"decoder." + kind + "_head" + end, {points_ * all}, {}};
      if (weight) t.shape.push_back(width);
      for (int64_t i = 0; i < all; ++i)
        t.pieces.push_back({"decoder." + kind + "_heads." + first[i] + end, points_, width, 0, width,
                            i * width, all * width});
      form_.earlier.push_back(std::move(t));
    }
  }

  const AuroraSpec& n_;
  const int64_t points_;  // points of a patch
  bool adapted_ = false;
  PublishedForm form_;
  std::set<std::string> taken_;  // our tensors whose form differs there
};

}  // namespace
}  // namespace aurora

PublishedForm published_form(const AuroraSpec& n, const std::vector<plan::Tensor>& own) {
  return aurora::Form(n).of(own);
}

}  // namespace isobar::nets
