#include "model/nets/declare.h"

#include <queue>
#include <utility>

namespace isobar {
namespace {

class Declaration {
 public:
  Declaration(Builder& b, const RunSpec& spec, const Sharding& at, Parameters& params, const Stages& stages,
              Ends& ends, std::span<Block> blocks, Norm& final_norm)
      : b_(b),
        n_(spec.net),
        at_(at),
        params_(params),
        stages_(stages),
        ends_(ends),
        blocks_(blocks),
        final_(final_norm),
        fp8_(spec.policy.amp == "fp8") {
    for (int64_t r = 0; at.replicas > 1 && r < at.replicas; ++r) written_.push({0, -r});
  }

  void run() {
    list_ = true;
    declare({.first = 0, .end = n_.depth, .is_first = true, .is_last = true});
    list_ = false;
    for (const bool cut : {true, false}) {
      if (cut && at_.tp == 1) continue;
      for (const bool matrix : {true, false}) {
        if (!matrix && !params_.by_reader()) continue;
        for (const Stage& stage : stages_.list()) {
          section_ = {.chunk = stage.chunk,
                      .group = cut ? at_.cut_group : at_.whole_group,
                      .matrix = matrix,
                      .counted = cut || at_.counts_whole};
          cut_ = cut;
          params_.section(section_);
          declare(stage);
        }
      }
    }
    params_.end();
  }

 private:
  // One operand of one or several tensors, each [out, in] or [out]; `axis` is what tensor parallelism cuts
  // (-1: none). `matrix`: matrix products read it.
  void declare(View& v, bool matrix, std::vector<Param> pieces) {
    if (list_) {
      for (const Param& p : pieces) b_.plan.tensors.push_back({p.name, p.shape});
      return;
    }
    if (at_.tp == 1)
      for (Param& p : pieces) p.axis = -1;
    const bool is_cut = pieces[0].axis >= 0;
    if (is_cut != cut_ || (params_.by_reader() && matrix != section_.matrix)) return;
    for (Param& p : pieces) {
      p.matrix = matrix;
      if (is_cut) {
        p.extent = p.shape[p.axis] / at_.tp;
        p.begin = p.extent * at_.at.tp;
      }
      p.writer = p.writer && (is_cut || at_.counts_whole) && writes(p);
    }
    v = b_.params_together(pieces);
  }

  // Whether this replica is the one that writes it: whoever has the least so far, all replicas count alike.
  bool writes(const Param& p) {
    if (at_.replicas == 1) return true;
    int64_t elements = p.axis >= 0 ? p.extent : 1;
    for (size_t i = 0; i < p.shape.size(); ++i)
      if (static_cast<int>(i) != p.axis) elements *= p.shape[i];
    const auto [had, who] = written_.top();
    written_.pop();
    written_.push({had - elements, who});
    return -who == at_.replica;
  }

  void declare(const Stage& stage) {
    const float sigma = 0.02f;
    const auto norm = [&](Norm& n, const std::string& name) {
      declare(n.gamma, false, {{name + ".weight", {D_}, Init::one}});
      if (!n_.rms_norm()) declare(n.beta, false, {{name + ".bias", {D_}, Init::zero}});
    };
    const auto linear = [&](Linear& l, const std::string& name, int64_t in, int64_t out, int cut_axis) {
      l.in = cut_axis == 1 ? in / at_.tp : in;
      l.out = cut_axis == 0 ? out / at_.tp : out;
      l.fp8 = fp8_;
      declare(l.weight, true, {{name + ".weight", {out, in}, Init::normal, sigma, cut_axis}});
      if (!n_.rms_norm())
        declare(l.bias, false, {{name + ".bias", {out}, Init::zero, 0, cut_axis == 0 ? 0 : -1}});
    };
    const auto part = [&](int index) {
      if (!list_) params_.part(index);
    };
    const auto ends = [&](int index) {
      return [this, part, index](View& v, bool matrix, Param p, Held held) {
        if (list_ && held == Held::second_of_two) return;
        if (!list_ && held != Held::once) params_.alone(index, held == Held::first_of_two);
        p.writer = held != Held::second_of_two;
        declare(v, matrix, {std::move(p)});
        part(index);
      };
    };
    if (stage.is_first) {
      const InPart here(b_, kEmbed);
      part(kEmbed);
      ends_.declare_first(ends(kEmbed));
    }
    const int64_t hidden = n_.hidden();
    for (int64_t i = stage.first; i < stage.end; ++i) {
      const InPart here(b_, part_of(i));
      part(part_of(i));
      Block& block = blocks_[i];
      block.part = part_of(i);
      block.path = b_.plan.parts[block.part].path;
      const std::string name = "blocks." + std::to_string(i);
      norm(block.norm1, name + ".norm1");
      std::vector<Param> w, bias;  // q, k and v side by side are one [3D, D] operand
      const int64_t kv = n_.kv_heads() * n_.head_dim();
      for (const auto& [part, out] : {std::pair{"q", D_}, {"k", kv}, {"v", kv}}) {
        w.push_back({name + ".attn." + part + ".weight", {out, D_}, Init::normal, sigma, 0});
        bias.push_back({name + ".attn." + part + ".bias", {out}, Init::zero, 0, 0});
      }
      block.qkv.in = D_, block.qkv.out = (D_ + 2 * kv) / at_.tp, block.qkv.fp8 = fp8_;
      declare(block.qkv.weight, true, std::move(w));
      if (!n_.rms_norm()) declare(block.qkv.bias, false, std::move(bias));
      linear(block.proj, name + ".attn.proj", D_, D_, 1);
      norm(block.norm2, name + ".norm2");
      linear(block.fc1, name + ".mlp.fc1", D_, n_.rms_norm() ? 2 * hidden : hidden,
             0);  // SwiGLU: gate and up
      linear(block.fc2, name + ".mlp.fc2", hidden, D_, 1);
    }
    if (stage.is_last) {
      const int head = head_of(n_);
      const InPart here(b_, head);
      part(head);
      norm(final_, "norm");
      ends_.declare_last(ends(head), stage.is_first);
    }
  }

  Builder& b_;
  const NetSpec& n_;
  const int64_t D_ = n_.embed_dim;  // width
  const Sharding& at_;
  Parameters& params_;
  const Stages& stages_;
  Ends& ends_;
  const std::span<Block> blocks_;
  Norm& final_;
  const bool fp8_;                   // of blocks; the head's products are in bf16
  bool list_ = false, cut_ = false;  // what declare() is at
  Section section_;
  std::priority_queue<std::pair<int64_t, int64_t>> written_;  // minus elements and replica: least on top
};

}  // namespace

void declare_parameters(Builder& b, const RunSpec& spec, const Sharding& at, Parameters& params,
                        const Stages& stages, Ends& ends, std::span<Block> blocks, Norm& final_norm) {
  Declaration(b, spec, at, params, stages, ends, blocks, final_norm).run();
}

}  // namespace isobar
