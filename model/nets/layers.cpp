#include "model/nets/layers.h"

#include <numeric>

#include "model/nets/transformer/adapter.h"

namespace isobar::nets {
namespace {

// fp8 products have bf16 operands outside, as in Transformer Engine.
DType act_of(const RunSpec& spec) {
  const Amp amp = spec.policy.amp;
  return amp == Amp::bf16 || amp >= Amp::fp8 ? DType::bf16 : amp == Amp::fp16 ? DType::f16 : DType::f32;
}

}  // namespace

Emission::Emission(plan::Builder& b, const RunSpec& spec)
    : b(b),
      spec(spec),
      act(act_of(spec)),
      amp(act),
      split(spec.policy.schedule == PipelineSchedule::zb_h1),
      tf32_(spec.policy.amp == Amp::tf32) {}

// ---- a backward routine ----

void Emission::backward_begins(bool accumulate) {
  accumulate_ = accumulate;
  postponed_.clear();
  adapter_gradients_.clear();
}

plan::View Emission::operand(const std::string& name, DType t, int64_t count) {
  if (!split) return b.scratch(name, t, count);
  const auto [it, fresh] = operands_.try_emplace({name, count});
  if (fresh) it->second = b.saved(name, t, count);
  return it->second;
}

plan::View Emission::for_linear(const std::string& path, const std::string& name, const plan::View& dx) {
  const DType stream = b.plan.buffers[dx.buffer].dtype;
  if (!copies_gradient(stream)) return dx;
  const plan::View dy = operand(name, act, dx.count);
  b.convert(path, dx, dy);
  return dy;
}

// A product of a linear, or of each expert's rows with its weight
void Emission::product(const std::string& path, const Linear& l, const plan::View& offsets, plan::GemmAttrs a,
                       const plan::View& x, const plan::View& w, const plan::View& bias, const plan::View& y,
                       bool weight_gradient) {
  a.tf32 = tf32_, a.fp8 = l.fp8;
  if (l.experts == 0)
    b.emit<plan::OpKind::gemm>(path, a, {x, w, bias}, {y}).weight_gradient = weight_gradient;
  else
    b.emit<plan::OpKind::grouped_gemm>(path,
                                       {.m = a.m,
                                        .n = a.n,
                                        .k = a.k,
                                        .trans_a = a.trans_a,
                                        .trans_b = a.trans_b,
                                        .accumulate = a.accumulate,
                                        .tf32 = a.tf32,
                                        .fp8 = a.fp8,
                                        .groups = l.experts,
                                        .busiest = l.busiest},
                                       {x, w, offsets}, {y})
        .weight_gradient = weight_gradient;
}

void Emission::weight_gradient(const Postponed& p) {
  const plan::InPart here(b, p.part);
  const Linear& l = *p.linear;
  product(p.path + "/backward_weight", l, p.offsets,
          {.m = l.out, .n = l.in, .k = p.rows, .trans_a = true, .accumulate = accumulate_}, p.dy, p.x,
          plan::View{}, b.grad(l.weight), true);
}

void Emission::weight_gradients(bool accumulate, const std::function<void(size_t)>& after) {
  accumulate_ = accumulate;
  const auto whole = [&](Postponed p) {
    const plan::InPart here(b, p.part);
    const Layers layers(*this, *p.at);
    const std::string path = p.path + "/backward_weight";
    if (p.x.count < p.rows * p.linear->in) p.x = layers.gathered(path, p.x);
    if (p.dy.count < p.rows * p.linear->out) p.dy = layers.gathered(path, p.dy);
    return p;
  };
  Postponed now;
  if (!postponed_.empty()) now = whole(postponed_[0]);
  for (size_t i = 0; i < postponed_.size(); ++i) {
    // The next product's operands are gathered under this one.
    Postponed next;
    if (i + 1 < postponed_.size()) next = whole(postponed_[i + 1]);
    weight_gradient(now);
    after(i + 1);
    now = std::move(next);
  }
}

// ---- linears ----

void Layers::linear_forward(const std::string& path, const Linear& l, const plan::View& x,
                            const plan::View& y, int64_t rows, const plan::View& bias, bool add) const {
  e_.product(path, l, l.offsets, {.m = rows, .n = l.out, .k = l.in, .trans_b = true, .accumulate = add}, x,
             e_.weight(l.weight), bias, y);
  if (!l.adapter) return;
  const auto& [a, b, scale] = *l.adapter;
  const plan::View t = b_.scratch(path + ".lora.t", e_.act, rows * a.out);
  b_.emit<plan::OpKind::gemm>(
      path + "/lora_A", {.m = rows, .n = a.out, .k = a.in, .trans_b = true, .tf32 = e_.tf32_, .scale = scale},
      {x, e_.weight(a.weight), plan::View{}}, {t});
  b_.emit<plan::OpKind::gemm>(
      path + "/lora_B",
      {.m = rows, .n = b.out, .k = b.in, .trans_b = true, .accumulate = true, .tf32 = e_.tf32_},
      {t, e_.weight(b.weight), plan::View{}}, {y});
}

void Layers::linear_backward_input(const std::string& path, const Linear& l, const plan::View& dy,
                                   const plan::View& dx, int64_t rows, bool add) const {
  e_.product(path + "/backward_input", l, l.offsets, {.m = rows, .n = l.in, .k = l.out, .accumulate = add},
             dy, e_.weight(l.weight), plan::View{}, dx);
  if (!l.adapter) return;
  const Linear& a = l.adapter->a;
  b_.emit<plan::OpKind::gemm>(path + "/lora_A/backward_input",
                              {.m = rows, .n = a.in, .k = a.out, .accumulate = true, .tf32 = e_.tf32_},
                              {adapter_gradient(path, l, dy), e_.weight(a.weight), plan::View{}}, {dx});
}

// s dy B: the gradient of x A^T
plan::View Layers::adapter_gradient(const std::string& path, const Linear& l, const plan::View& dy) const {
  const auto& [a, b, scale] = *l.adapter;
  plan::View& dt = e_.adapter_gradients_[l.adapter.get()];
  const int64_t rows = dy.count / l.out;
  dt = e_.operand(path + ".lora.dt", e_.act, rows * a.out);
  b_.emit<plan::OpKind::gemm>(path + "/lora_B/backward_input",
                              {.m = rows, .n = b.in, .k = b.out, .tf32 = e_.tf32_, .scale = scale},
                              {dy, e_.weight(b.weight), plan::View{}}, {dt});
  return dt;
}

// x A^T is recomputed: it is cheap, and saves memory.
void Layers::adapter_backward_weight(const std::string& path, const Linear& l, const plan::View& x,
                                     const plan::View& dy, int64_t rows) const {
  const auto& [a, b, scale] = *l.adapter;
  const auto known = e_.adapter_gradients_.find(l.adapter.get());
  // Reuses the gradient that the input's backward left, if it covers these rows: it may be of all rows where
  // dy is this rank's part, or of the last of several runs only.
  const bool covers = known != e_.adapter_gradients_.end() && known->second.count * l.out >= dy.count * a.out;
  const plan::View dt = covers ? known->second : adapter_gradient(path, l, dy);
  e_.adapter_gradients_.erase(l.adapter.get());  // the linear's next use has other rows
  const int64_t own = x.count / l.in;
  const plan::View t = e_.operand(path + ".lora.t", e_.act, own * a.out);
  b_.emit<plan::OpKind::gemm>(
      path + "/lora_A/recompute",
      {.m = own, .n = a.out, .k = a.in, .trans_b = true, .tf32 = e_.tf32_, .scale = scale},
      {x, e_.weight(a.weight), plan::View{}}, {t});
  put_off_or_emit(path + "/lora_B", b, t, dy, rows);
  put_off_or_emit(path + "/lora_A", a, x, dt, rows);
}

void Layers::linear_backward_weight(const std::string& path, const Linear& l, const plan::View& x,
                                    const plan::View& dy, int64_t rows) const {
  if (b_.trained(l.weight)) put_off_or_emit(path, l, x, dy, rows);
  if (l.adapter) adapter_backward_weight(path, l, x, dy, rows);
}

void Layers::put_off_or_emit(const std::string& path, const Linear& l, const plan::View& x,
                             const plan::View& dy, int64_t rows) const {
  const Emission::Postponed p{path, &l, x, dy, rows, b_.part(), &at_, l.offsets};
  if (e_.split)
    e_.postponed_.push_back(p);
  else
    e_.weight_gradient(p);
}

void Layers::zero_gradients(const std::string& path, const Linear& l) const {
  const auto zero = [&](const std::string& what, const plan::View& weight) {
    b_.emit<plan::OpKind::zero>(path + what + "/backward_zero", {.count = weight.count}, {},
                                {b_.grad(weight)});
  };
  zero("", l.weight);
  if (!l.adapter) return;
  zero("/lora_A", l.adapter->a.weight);
  zero("/lora_B", l.adapter->b.weight);
}

// ---- norms ----

void Layers::norm_forward(const std::string& path, const std::string& pass, Norm& n, const Flow& in,
                          bool keep) const {
  const int64_t rows = at_.rows, D = n.gamma.count;
  n.h = b_.saved_or_scratch(path + ".h", e_.act, rows * D, keep && n.keeps_h);
  const plan::View sum = in.y ? n.x : plan::View{};
  if (!n.beta) {
    n.rstd = b_.saved_or_scratch(path + ".rstd", DType::f32, rows, keep);
    b_.emit<plan::OpKind::rms_norm>(path + pass, {.rows = rows, .cols = D, .eps = n.eps},
                                    {in.x, in.y, n.gamma}, {sum, n.h, n.rstd});
    return;
  }
  n.mean = b_.saved_or_scratch(path + ".mean", DType::f32, rows, keep);
  n.rstd = b_.saved_or_scratch(path + ".rstd", DType::f32, rows, keep);
  b_.emit<plan::OpKind::residual_norm>(
      path + pass, {.rows = rows, .cols = D, .eps = n.eps, .period = in.period, .row0 = in.row0},
      {in.x, in.y, n.gamma, n.beta}, {sum, n.h, n.mean, n.rstd});
}

plan::View Layers::norm_backward(const std::string& path, const Norm& n, const plan::View& dh,
                                 const plan::View& dx, bool first, const Flow& in) const {
  const int64_t rows = at_.rows, D = n.gamma.count;
  const bool copies = in.y && e_.copies_gradient(b_.plan.buffers[dx.buffer].dtype);
  const plan::View dy = copies ? e_.operand(path + ".dy", e_.act, rows * D) : plan::View{};
  const plan::NormAttrs a{
      .rows = rows, .cols = D, .accumulate = e_.accumulates(), .eps = n.eps, .first = first};
  if (!n.beta)
    b_.emit<plan::OpKind::rms_norm_backward>(path + "/backward", a, {n.x, n.rstd, n.gamma, dh},
                                             {dx, dy, b_.grad(n.gamma)});
  else
    b_.emit<plan::OpKind::residual_norm_backward>(
        path + "/backward", a, {n.x, n.mean, n.rstd, n.gamma, dh},
        {dx, dy, b_.grad(n.gamma), b_.grad(n.beta), in.bias ? b_.grad(in.bias) : plan::View{}});
  return copies ? dy : in.y ? dx : plan::View{};
}

namespace {

plan::NormAttrs attrs_of(const Norm& n, const Rows& r) {
  return {.rows = r.lines * r.heads,
          .cols = n.gamma.count,
          .eps = n.eps,
          .first = true,
          .heads = r.heads,
          .ld_x = r.ld_x,
          .ld_h = r.ld_h};
}

}  // namespace

void Layers::head_norm_forward(const std::string& path, const std::string& pass, Norm& n, const Rows& rows,
                               const plan::View& h, bool keep) const {
  n.rstd = b_.saved_or_scratch(path + ".rstd", DType::f32, rows.lines * rows.heads, keep);
  b_.emit<plan::OpKind::rms_norm>(path + pass, attrs_of(n, rows), {n.x, plan::View{}, n.gamma},
                                  {plan::View{}, h, n.rstd});
}

void Layers::head_norm_backward(const std::string& path, const Norm& n, const Rows& rows,
                                const plan::View& dh, const plan::View& dx) const {
  plan::NormAttrs a = attrs_of(n, rows);
  a.accumulate = e_.accumulates();
  b_.emit<plan::OpKind::rms_norm_backward>(path + "/backward", a, {n.x, n.rstd, n.gamma, dh},
                                           {dx, plan::View{}, b_.grad(n.gamma)});
}

void Layers::add(const std::string& path, const Flow& in, const plan::View& x) const {
  b_.emit<plan::OpKind::residual_add>(path, in.sum(x), {in.x, in.y}, {x});
}

plan::View Layers::add_backward(const std::string& path, const Flow& in, const plan::View& dx) const {
  if (!in.y) return {};
  const plan::View dy = e_.for_linear(path + "/backward_cast", path + ".dy", dx);
  if (const int64_t width = in.bias.count; in.bias)
    b_.emit<plan::OpKind::column_sum>(
        path + "/backward_bias", {.rows = dx.count / width, .cols = width, .accumulate = e_.accumulates()},
        {dy}, {b_.grad(in.bias)});
  return dy;
}

// ---- dropout ----

// Seeded by a row's index in the whole step, so that every layout draws the same numbers.
plan::DropoutAttrs Layers::dropout_attrs(const plan::View& y, int64_t stream) const {
  const int64_t sample = std::accumulate(at_.token_parts.begin(), at_.token_parts.end(), int64_t{0});
  return {.rows = at_.rows,
          .cols = y.count / at_.rows,
          .period = e_.spec.layout.dp * at_.batch * sample,
          .row0 = at_.at.dp * at_.full_rows + at_.row0,
          .rate = static_cast<float>(e_.dropout),
          .stream = stream,
          .seed = e_.spec.train.seed,
          .sample = sample,
          .tokens = at_.runs()};
}

plan::View Layers::dropout(const std::string& path, const plan::View& y, bool keep, int64_t stream) const {
  if (e_.dropout == 0) return {};
  const plan::View mask = keep ? b_.saved(path + ".mask", DType::f32, (y.count + 3) / 4) : plan::View{};
  b_.emit<plan::OpKind::dropout>(path, dropout_attrs(y, stream), {y, b_.plan.scalars}, {y, mask});
  return mask;
}

void Layers::dropout_backward(const std::string& path, const plan::View& dy, const plan::View& mask,
                              int64_t stream) const {
  if (e_.dropout > 0)
    b_.emit<plan::OpKind::dropout_backward>(path, dropout_attrs(dy, stream), {dy, mask, b_.plan.scalars},
                                            {dy});
}

// ---- tensor parallelism: communication ----

// Reduces a row-parallel linear's result, or a column-parallel one's input gradient
plan::View Layers::result(const std::string& path, const plan::View& partial) const {
  if (at_.tp == 1) return partial;
  if (!at_.sequence) {
    b_.emit<plan::OpKind::all_reduce>(path + "/all_reduce", {.group = at_.tp_group}, {partial}, {partial},
                                      plan::Lane::tp);
    return partial;
  }
  const int64_t D = partial.count / at_.full_rows;
  const plan::View own = b_.scratch(path + ".part", e_.act, at_.rows * D);
  plan::TransferAttrs a{.group = at_.tp_group};
  a.send = at_.row_elements(D);
  b_.emit<plan::OpKind::reduce_scatter>(path + "/reduce_scatter", a, {partial}, {own}, plan::Lane::tp);
  return own;
}

plan::View Layers::gathered(const std::string& path, const plan::View& part) const {
  if (!at_.sequence) return part;
  const int64_t D = part.count / at_.rows;
  const plan::View all = b_.scratch(path + ".all", b_.plan.buffers[part.buffer].dtype, at_.full_rows * D);
  plan::TransferAttrs a{.group = at_.tp_group};
  a.receive = at_.row_elements(D);
  b_.emit<plan::OpKind::all_gather>(path + "/all_gather", a, {part}, {all}, plan::Lane::tp);
  return all;
}

}  // namespace isobar::nets
