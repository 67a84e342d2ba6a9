#include "model/nets/vit.h"

#include <cmath>
#include <cstdio>

#include "model/plan/layout.h"
#include "model/plan/schedule.h"

namespace isobar {
namespace {

struct Linear {
  View weight;  // [out, in]
  View bias;    // [out], may be absent
  int64_t in, out;
};

struct Norm {             // parameters and what its forward saves
  View gamma, beta;       // [D]
  View x, h, mean, rstd;  // x [R,D] f32, h [R,D] act, [R] f32
};

struct Block {
  std::string path;  // block07
  Norm norm1, norm2;
  Linear qkv, proj, fc1, fc2;
  View qkv_out;  // [R,3D] act
  View o, lse;   // [R,D] act, [B,heads,N] f32
  View u, g;     // [R,4D] act: before and after GELU
};

class Vit {
 public:
  Vit(const RunSpec& spec, int rank, const Workspace& workspace)
      : s_(spec),
        n_(spec.net),
        b_(rank, static_cast<int>(spec.layout.world()), workspace),
        act_(spec.policy.amp == "bf16" ? DType::bf16 : DType::f32),
        B_(spec.micro_batch()),
        N_(n_.tokens()),
        D_(n_.embed_dim),
        R_(B_ * N_),
        P_(n_.in_channels * n_.patch_size * n_.patch_size) {
    if (spec.layout.dp > 1) dp_ = b_.group("dp", group_of(spec.layout, "dp", rank));
  }

  Plan build() {
    declare_parameters();
    b_.plan.metrics = b_.io("metrics", DType::f32, 1 + n_.out_channels);
    b_.plan.grad_norm2 = b_.io("grad_norm2", DType::f32, 1);
    b_.plan.adam_scalars = b_.io("adam_scalars", DType::f32, 2);
    const int init = emit_init();
    const int begin = emit_begin();
    const int forward = emit_forward();
    const auto m = static_cast<int>(s_.micro_batches());
    // Gradients are written by the first micro-batch, added to by the others, and reduced under the last.
    std::vector<int> backward(m);
    if (m == 1) {
      backward[0] = emit_backward("backward", false, true);
    } else {
      backward[0] = emit_backward("backward.first", false, false);
      const int middle = m > 2 ? emit_backward("backward.middle", true, false) : -1;
      for (int i = 1; i < m - 1; ++i) backward[i] = middle;
      backward[m - 1] = emit_backward("backward.last", true, true);
    }
    const int optimizer = emit_optimizer();
    const int eval_end = dp_ >= 0 ? emit_eval_end() : -1;

    Plan& plan = b_.plan;
    plan.init = {{init, 0, 0}};
    const auto actions = schedule_actions(s_.policy.schedule, 1, 0, m);
    plan.slots = in_flight(actions, 1);
    plan.train.push_back({begin, 0, 0});
    for (const Action& a : actions) {
      const auto slot = static_cast<int32_t>(a.micro % plan.slots[a.chunk]);
      plan.train.push_back({a.type == Action::Type::forward ? forward : backward[a.micro], a.micro, slot});
    }
    plan.train.push_back({optimizer, 0, 0});
    plan.eval = {{begin, 0, 0}, {forward, 0, 0}};
    if (eval_end >= 0) plan.eval.push_back({eval_end, 0, 0});
    return std::move(plan);
  }

 private:
  // ---- parameters, in forward order ----
  void declare_parameters() {
    const float sigma = 0.02f;
    // The patch convolution keeps PyTorch's default: uniform within 1/sqrt(fan_in), weight and bias.
    const float fan = 1.0f / std::sqrt(static_cast<float>(P_));
    const int64_t p = n_.patch_size, C = n_.in_channels;
    patch_ = {b_.param("patch_embed.weight", {D_, C, p, p}, Init::uniform, fan),
              b_.param("patch_embed.bias", {D_}, Init::uniform, fan), P_, D_};
    pos_ = b_.param("pos_embed", {N_, D_}, Init::normal, sigma);
    const auto norm = [&](const std::string& name) {
      Norm out;
      out.gamma = b_.param(name + ".weight", {D_}, Init::one);
      out.beta = b_.param(name + ".bias", {D_}, Init::zero);
      return out;
    };
    const auto linear = [&](const std::string& name, int64_t in, int64_t out) {
      return Linear{b_.param(name + ".weight", {out, in}, Init::normal, sigma),
                    b_.param(name + ".bias", {out}, Init::zero), in, out};
    };
    const int64_t hidden = n_.mlp_ratio * D_;
    blocks_.resize(n_.depth);
    for (int64_t i = 0; i < n_.depth; ++i) {
      Block& block = blocks_[i];
      char path[16];
      std::snprintf(path, sizeof path, "block%02d", static_cast<int>(i));
      block.path = path;
      const std::string name = "blocks." + std::to_string(i);
      block.norm1 = norm(name + ".norm1");
      std::vector<Param> w, bias;  // q, k and v side by side are one [3D, D] operand
      for (const char* part : {"q", "k", "v"}) {
        w.push_back({name + ".attn." + part + ".weight", {D_, D_}, 0, 0, Init::normal, sigma});
        bias.push_back({name + ".attn." + part + ".bias", {D_}, 0, 0, Init::zero, 0});
      }
      block.qkv = {b_.params_together(w), b_.params_together(bias), D_, 3 * D_};
      block.proj = linear(name + ".attn.proj", D_, D_);
      block.norm2 = norm(name + ".norm2");
      block.fc1 = linear(name + ".mlp.fc1", D_, hidden);
      block.fc2 = linear(name + ".mlp.fc2", hidden, D_);
    }
    final_ = norm("norm");
    head_ = {b_.param("head.weight", {P_, D_}, Init::normal, sigma), View{}, D_, P_};
    b_.end_params(act_ != DType::f32);
  }

  // ---- small routines ----
  int emit_init() {
    const int r = b_.begin("init", Pass::init);
    const View all = b_.plan.params_all;
    if (dp_ >= 0) b_.emit(OpKind::broadcast, "params/broadcast", {.group = dp_}, {all}, {all}, Lane::dp);
    if (act_ != DType::f32)
      b_.emit(OpKind::cast, "params/cast", {.m = 1, .n = all.count}, {all}, {b_.plan.params16_all});
    b_.end();
    return r;
  }

  int emit_begin() {
    const int r = b_.begin("begin", Pass::begin);
    b_.emit(OpKind::zero, "metrics/zero", {.m = 1, .n = b_.plan.metrics.count}, {}, {b_.plan.metrics});
    b_.end();
    return r;
  }

  int emit_eval_end() {
    const int r = b_.begin("eval_end", Pass::eval_end);
    reduce_metrics();
    b_.end();
    return r;
  }

  void reduce_metrics() {
    if (dp_ < 0) return;
    b_.emit(OpKind::all_reduce, "metrics/all_reduce", {.group = dp_}, {b_.plan.metrics}, {b_.plan.metrics},
            Lane::dp);
  }

  int emit_optimizer() {
    const int r = b_.begin("optimizer", Pass::optimizer);
    Plan& p = b_.plan;
    const Attrs whole{.m = 1, .n = p.grads_all.count};
    b_.emit(OpKind::squared_sum, "optimizer/grad_norm", whole, {p.grads_all}, {p.grad_norm2});
    b_.emit(OpKind::adam, "optimizer/adam", whole, {p.grads_all, p.adam_scalars},
            {p.params_all, p.adam_m, p.adam_v, p.params16_all});
    b_.end();
    return r;
  }

  // ---- pieces shared by forward and backward ----
  Attrs image() const {
    return {.batch = B_,
            .channels = n_.in_channels,
            .height = n_.img_height,
            .width = n_.img_width,
            .patch = n_.patch_size};
  }
  Attrs rows(int64_t cols) const { return {.m = R_, .n = cols, .eps = static_cast<float>(n_.norm_eps)}; }
  Attrs attention() const {
    return {.batch = B_,
            .heads = n_.num_heads,
            .kv_heads = n_.num_heads,
            .tq = N_,
            .tk = N_,
            .d = n_.head_dim(),
            .ld_q = 3 * D_,
            .ld_kv = 3 * D_,
            .ld_o = D_,
            .scale = 1.0f / std::sqrt(static_cast<float>(n_.head_dim()))};
  }
  // Row 0 … of q, k or v inside the fused [R, 3D] matrix: a strided operand, stated as the span that it
  // covers.
  View third(const View& qkv, int which) const { return qkv.slice(which * D_, qkv.count - 2 * D_); }

  void linear_forward(const std::string& path, const Linear& l, const View& x, const View& y) {
    b_.emit(OpKind::gemm, path + "/forward", {.m = R_, .n = l.out, .k = l.in, .trans_b = true},
            {x, b_.weight(l.weight), l.bias}, {y});
  }
  // dx = dy W (unless dx is absent), dW = dy^T x
  void linear_backward(const std::string& path, const Linear& l, const View& x, const View& dy,
                       const View& dx) {
    if (dx)
      b_.emit(OpKind::gemm, path + "/backward_input", {.m = R_, .n = l.in, .k = l.out},
              {dy, b_.weight(l.weight), View{}}, {dx});
    b_.emit(OpKind::gemm, path + "/backward_weight",
            {.m = l.out, .n = l.in, .k = R_, .trans_a = true, .accumulate = accumulate_}, {dy, x, View{}},
            {b_.grad(l.weight)});
  }
  // x = residual + y, h = LN(x); allocates what backward will need
  void norm_forward(const std::string& path, Norm& n, const View& residual, int64_t period, const View& y) {
    n.x = b_.saved(path + ".x", DType::f32, R_ * D_);
    n.h = b_.saved(path + ".h", act_, R_ * D_);
    n.mean = b_.saved(path + ".mean", DType::f32, R_);
    n.rstd = b_.saved(path + ".rstd", DType::f32, R_);
    Attrs a = rows(D_);
    a.period = period;
    b_.emit(OpKind::residual_norm, path + "/forward", a, {residual, y, n.gamma, n.beta},
            {n.x, n.h, n.mean, n.rstd});
  }
  // dx += LN'(dh); returns the gradient that the linear before this norm gets: dx itself, or its 16-bit copy
  View norm_backward(const std::string& path, const Norm& n, const View& dh, bool first, const View& bias) {
    const View dy16 = act_ == DType::f32 ? View{} : b_.scratch(path + ".dy", act_, R_ * D_);
    Attrs a = rows(D_);
    a.first = first;
    a.accumulate = accumulate_;
    b_.emit(OpKind::residual_norm_backward, path + "/backward", a, {n.x, n.mean, n.rstd, n.gamma, dh},
            {dx_, dy16, b_.grad(n.gamma), b_.grad(n.beta), b_.grad(bias)});
    return dy16 ? dy16 : dx_;
  }

  int emit_forward() {
    const int r = b_.begin("forward", Pass::forward);
    const int64_t pixels = B_ * n_.in_channels * n_.img_height * n_.img_width;
    const View input = b_.scratch("input", DType::f32, pixels);
    target_ = b_.saved("target", DType::f32, pixels);
    patches_ = b_.saved("patches", act_, R_ * P_);
    b_.emit(OpKind::fetch, "data/fetch", image(), {}, {input, target_});
    b_.emit(OpKind::patch_gather, "patch_embed/gather", image(), {input}, {patches_});
    View y = b_.scratch("patch_embed.y", act_, R_ * D_);
    linear_forward("patch_embed", patch_, patches_, y);

    View residual = pos_;
    int64_t period = N_;  // the position repeats for every image of the batch
    for (Block& block : blocks_) {
      norm_forward(block.path + "/norm1", block.norm1, residual, period, y);
      block.qkv_out = b_.saved(block.path + ".qkv", act_, R_ * 3 * D_);
      linear_forward(block.path + "/attn/qkv", block.qkv, block.norm1.h, block.qkv_out);
      block.o = b_.saved(block.path + ".o", act_, R_ * D_);
      block.lse = b_.saved(block.path + ".lse", DType::f32, B_ * n_.num_heads * N_);
      b_.emit_with_workspace(OpKind::attention, block.path + "/attn/core/forward", attention(),
                             {third(block.qkv_out, 0), third(block.qkv_out, 1), third(block.qkv_out, 2)},
                             {block.o, block.lse});
      y = b_.scratch(block.path + ".attn.y", act_, R_ * D_);
      linear_forward(block.path + "/attn/proj", block.proj, block.o, y);

      norm_forward(block.path + "/norm2", block.norm2, block.norm1.x, 0, y);
      block.u = b_.saved(block.path + ".u", act_, R_ * block.fc1.out);
      block.g = b_.saved(block.path + ".g", act_, R_ * block.fc1.out);
      linear_forward(block.path + "/mlp/fc1", block.fc1, block.norm2.h, block.u);
      b_.emit(OpKind::gelu, block.path + "/mlp/gelu/forward", rows(block.fc1.out), {block.u}, {block.g});
      y = b_.scratch(block.path + ".mlp.y", act_, R_ * D_);
      linear_forward(block.path + "/mlp/fc2", block.fc2, block.g, y);
      residual = block.norm2.x;
      period = 0;
    }
    norm_forward("norm", final_, residual, 0, y);
    pred_ = b_.saved("pred", act_, R_ * P_);
    linear_forward("head", head_, final_.h, pred_);
    sums_ = b_.saved("loss.sums", DType::f32, 2 * B_);
    Attrs a = image();
    a.scale = 1.0f / static_cast<float>(s_.micro_batches() * s_.layout.dp);
    b_.emit(OpKind::loss, "loss/forward", a, {pred_, target_}, {sums_, b_.plan.metrics});
    b_.end();
    return r;
  }

  int emit_backward(const std::string& name, bool accumulate, bool reduce) {
    const int r = b_.begin(name, Pass::backward);
    accumulate_ = accumulate;
    GradientBuckets buckets(b_, reduce ? dp_ : -1, static_cast<int64_t>(s_.policy.bucket_mb * 1e6),
                            s_.policy.overlap);
    dx_ = b_.scratch("dx", DType::f32, R_ * D_);
    const View dpred = b_.scratch("dpred", act_, R_ * P_);
    Attrs a = image();
    a.scale = 1.0f / static_cast<float>(s_.train.global_batch);
    b_.emit(OpKind::loss_backward, "loss/backward", a, {pred_, target_, sums_}, {dpred});
    View dh = b_.scratch("norm.dh", act_, R_ * D_);
    linear_backward("head", head_, final_.h, dpred, dh);
    View dy = norm_backward("norm", final_, dh, true, blocks_.back().fc2.bias);
    buckets.done_down_to(final_.gamma.offset);
    for (int64_t i = n_.depth - 1; i >= 0; --i) {
      const Block& block = blocks_[i];
      const View du = b_.scratch(block.path + ".du", act_, R_ * block.fc1.out);
      linear_backward(block.path + "/mlp/fc2", block.fc2, block.g, dy, du);
      Attrs gelu = rows(block.fc1.out);
      gelu.accumulate = accumulate_;
      b_.emit(OpKind::gelu_backward, block.path + "/mlp/gelu/backward", gelu, {block.u, du},
              {du, b_.grad(block.fc1.bias)});
      dh = b_.scratch(block.path + ".norm2.dh", act_, R_ * D_);
      linear_backward(block.path + "/mlp/fc1", block.fc1, block.norm2.h, du, dh);
      dy = norm_backward(block.path + "/norm2", block.norm2, dh, false, block.proj.bias);

      const View d_o = b_.scratch(block.path + ".do", act_, R_ * D_);
      linear_backward(block.path + "/attn/proj", block.proj, block.o, dy, d_o);
      const View dqkv = b_.scratch(block.path + ".dqkv", act_, R_ * 3 * D_);
      const View& qkv = block.qkv_out;
      b_.emit_with_workspace(OpKind::attention_backward, block.path + "/attn/core/backward", attention(),
                             {third(qkv, 0), third(qkv, 1), third(qkv, 2), block.o, block.lse, d_o},
                             {third(dqkv, 0), third(dqkv, 1), third(dqkv, 2)});
      Attrs sum = rows(3 * D_);
      sum.accumulate = accumulate_;
      b_.emit(OpKind::column_sum, block.path + "/attn/qkv/backward_bias", sum, {dqkv},
              {b_.grad(block.qkv.bias)});
      dh = b_.scratch(block.path + ".norm1.dh", act_, R_ * D_);
      linear_backward(block.path + "/attn/qkv", block.qkv, block.norm1.h, dqkv, dh);
      // The linear before norm1 is the previous block's fc2, or the patch embedding.
      dy = norm_backward(block.path + "/norm1", block.norm1, dh, false,
                         i > 0 ? blocks_[i - 1].fc2.bias : patch_.bias);
      buckets.done_down_to(block.norm1.gamma.offset);
    }
    Attrs pos = rows(D_);
    pos.period = N_;
    pos.accumulate = accumulate_;
    b_.emit(OpKind::period_sum, "pos_embed/backward", pos, {dx_}, {b_.grad(pos_)});
    linear_backward("patch_embed", patch_, patches_, dy, View{});
    buckets.finish();
    if (reduce) reduce_metrics();
    b_.end();
    return r;
  }

  const RunSpec& s_;
  const NetSpec& n_;
  Builder b_;
  const DType act_;              // of activations: what matrix products read and write
  const int64_t B_, N_, D_, R_;  // micro-batch, tokens, width, rows = B * N
  const int64_t P_;              // channels * patch * patch
  int dp_ = -1;                  // group
  bool accumulate_ = false;      // backward adds to the gradients
  Linear patch_, head_;
  View pos_;  // [N, D]
  Norm final_;
  std::vector<Block> blocks_;
  View target_, patches_, pred_, sums_, dx_;
};

}  // namespace

Plan build_vit(const RunSpec& spec, int rank, const Workspace& workspace) {
  return Vit(spec, rank, workspace).build();
}

}  // namespace isobar
