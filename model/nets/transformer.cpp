#include "model/nets/transformer.h"

#include "model/nets/block.h"
#include "model/nets/language.h"
#include "model/nets/parts.h"
#include "model/nets/pixels.h"

namespace isobar {
namespace {

class Transformer : public Net {
 public:
  Transformer(Emission& e, const Sharding& at, const BlockShape& shape) : e_(e), at_(at), shape_(shape) {}

 protected:
  void add_blocks(int64_t depth) {
    const std::vector<Part> parts = parts_of(e_.spec.net);
    for (int64_t i = 0; i < depth; ++i) {
      const auto index = static_cast<int>(parts_.size());
      parts_.push_back(std::make_unique<Block>(index, parts[index].path, "blocks." + std::to_string(i), e_,
                                               at_, shape_));
    }
  }
  void join() {
    for (int32_t i = 1; i < static_cast<int32_t>(parts_.size()); ++i)
      streams_.push_back({"x", i - 1, i, shape_.stream, at_.rows * shape_.width});
  }

  Emission& e_;
  const Sharding& at_;
  const BlockShape shape_;
};

class Vit : public Transformer {
 public:
  Vit(Emission& e, const Sharding& at, const BlockShape& shape, const ImageShape& image)
      : Transformer(e, at, shape), image_(image) {
    auto embed = std::make_unique<PatchEmbed>(0, e, at, image, shape.width);
    embed_ = embed.get();
    parts_.push_back(std::move(embed));
    add_blocks(e.spec.net.depth);
    const auto last = static_cast<int>(parts_.size());
    auto head = std::make_unique<PixelHead>(last, e, at, image, shape);
    head_ = head.get();
    parts_.push_back(std::move(head));
    join();
    const int64_t pixels = at.batch * image.channels * image.height * image.width;
    batch_ = {{"input", BatchRole::input, 0, DType::f32, pixels, false},
              {"target", BatchRole::target, last, DType::f32, pixels, true}};
    metrics_ = {{"loss", 0, 1}, {"rmse", 1, image.channels}};
  }
  Attrs fetch() const override { return image_attrs(image_, at_); }
  void fetched(size_t tensor, const View& v) override {
    tensor == 0 ? embed_->set_input(v) : head_->set_target(v);
  }

 private:
  const ImageShape image_;
  PatchEmbed* embed_;
  PixelHead* head_;
};

class LanguageModel : public Transformer {
 public:
  LanguageModel(Emission& e, const Sharding& at, const BlockShape& shape, const Vocabulary& v)
      : Transformer(e, at, shape), tied_(v.tied && at.pp > 1) {
    auto embed = std::make_unique<TokenEmbed>(0, e, at, v, shape);
    embed_ = embed.get();
    parts_.push_back(std::move(embed));
    add_blocks(e.spec.net.depth);
    const auto last = static_cast<int>(parts_.size());
    auto head = std::make_unique<TokenHead>(last, e, at, v, shape, *embed_);
    head_ = head.get();
    parts_.push_back(std::move(head));
    join();
    batch_ = {{"tokens", BatchRole::input, 0, DType::i32, at.full_rows, true},
              {"labels", BatchRole::target, last, DType::i32, at.full_rows, true}};
    metrics_ = {{"loss", 0, 1}};
  }
  Attrs fetch() const override {
    return {.m = at_.full_rows, .n = 1, .batch = at_.batch, .token0 = at_.token0, .tokens = at_.tokens};
  }
  void fetched(size_t tensor, const View& v) override {
    tensor == 0 ? embed_->set_tokens(v) : head_->set_labels(v);
  }
  // First and last stage each have a copy of a tied table.
  void before_optimizer(const Parameters& params) override {
    const bool first = at_.at.pp == 0, last = at_.at.pp == at_.pp - 1;
    if (!tied_ || !(first || last)) return;
    Builder& b = e_.b;
    const std::vector<int> ranks = group_of(e_.spec.layout, "pp", b.plan.rank);
    const int group = b.group("embedding", {ranks.front(), ranks.back()});
    const View g = params.kept_gradient(first ? embed_->table() : head_->table());
    b.emit(OpKind::all_reduce, "optimizer/embedding/all_reduce", {.group = group}, {g}, {g}, Lane::dp);
  }

 private:
  const bool tied_;
  TokenEmbed* embed_;
  TokenHead* head_;
};

}  // namespace

std::unique_ptr<Net> make_vit(Emission& e, const Sharding& at) {
  const NetSpec& n = e.spec.net;
  const BlockShape shape{.width = n.embed_dim,
                         .heads = n.num_heads,
                         .kv_heads = n.num_heads,
                         .hidden = n.hidden(),
                         .tokens = n.tokens(),
                         .tanh = n.gelu == "tanh",
                         .eps = n.norm_eps};
  return std::make_unique<Vit>(e, at, shape,
                               ImageShape{n.in_channels, n.img_height, n.img_width, n.patch_size});
}

std::unique_ptr<Net> make_language_model(Emission& e, const Sharding& at) {
  const NetSpec& n = e.spec.net;
  const bool llama = n.kind == "llama";
  // Language models keep the residual stream in the type of activations.
  const BlockShape shape{.width = n.embed_dim,
                         .heads = n.num_heads,
                         .kv_heads = n.kv_heads(),
                         .hidden = n.hidden(),
                         .tokens = n.tokens(),
                         .rms_norm = llama,
                         .biases = !llama,
                         .swiglu = llama,
                         .tanh = n.gelu == "tanh",
                         .rotary = llama,
                         .causal = true,
                         .eps = n.norm_eps,
                         .dropout = n.dropout,
                         .stream = e.act};
  const int64_t unit = 128 * at.tp;  // Megatron pads the vocabulary to a multiple
  return std::make_unique<LanguageModel>(
      e, at, shape,
      Vocabulary{.held = (n.vocab_size + unit - 1) / unit * 128,
                 .tied = n.tie_embeddings,
                 .positions = !llama});
}

}  // namespace isobar
