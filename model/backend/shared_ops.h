// Functions of ops whose kernels on both back ends take the same operands. A back end's launch has
// run(kernel, operands …), and run_in_workspace(kernel, operands …) for those that need scratch on a GPU.
//
//   row<run_rotary<rotary, CpuLaunch>>
#pragma once
#include "model/backend/op_call.h"
#include "model/backend/shapes.h"

namespace isobar {
namespace shapes {

// ---- from an op's attributes ------------------------------------------------------------------------------

/// Tokens of a sample from which an image op's rows are cut.
inline int64_t tokens_of(const plan::ImageAttrs& a) {
  if (a.tokens > 0) return a.tokens;
  return a.patch > 0 ? (a.height / a.patch) * (a.width / a.patch) : 0;
}

inline Patch patch_of(const plan::ImageAttrs& a, DType act) {
  const int64_t tokens = tokens_of(a), rows = a.rows > 0 ? a.rows : a.batch * tokens - a.row0;
  return {a.batch, a.channels, a.height, a.width, a.patch, act, a.token0, tokens, a.row0, rows};
}

inline RmsNorm norm_of(const plan::NormAttrs& a, DType act, DType stream) {
  const auto or_all = [&](int64_t ld) { return ld == 0 ? a.cols * a.heads : ld; };
  return {a.rows, a.cols, a.eps, act, stream, a.heads, or_all(a.ld_x), or_all(a.ld_h)};
}

inline Rotary rotary_of(const plan::RotaryAttrs& a, DType act) {
  return {a.rows, a.cols, a.ld, a.d, a.tokens, act};
}

inline LatentHeads heads_of(const plan::LatentAttrs& a, DType act) {
  return {a.rows, a.heads, a.nope, a.rope, a.v, a.ld, a.tokens, act};
}

inline Route route_of(const plan::RouteAttrs& a) {
  return {a.rows, a.cols,   a.top,     a.tokens, a.sample,     a.normalised, a.balance,
          a.z,    a.factor, a.sigmoid, a.groups, a.top_groups, a.capacity,   a.ranks_before};
}

inline Copy copy_of(const plan::CopyAttrs& a, DType t) {
  return {a.extent, a.from, a.to, a.run, t};
}

}  // namespace shapes

// ---- norms ------------------------------------------------------------------------------------------------

template <auto kernel, class L>
void run_residual_norm(const OpCall<plan::OpKind::residual_norm, L>& c) {
  c.run(kernel,
        shapes::ResidualNorm{c.a.rows, c.a.cols, c.a.eps, c.a.period, c.type_out("h"), c.a.row0,
                             c.type_in("residual")},
        c.in("residual"), c.in("y"), c.in("gamma"), c.in("beta"), c.out("x"), c.out("h"), c.out("mean"),
        c.out("rstd"));
}

template <auto kernel, class L>
void run_residual_norm_backward(const OpCall<plan::OpKind::residual_norm_backward, L>& c) {
  c.run_in_workspace(kernel,
                     shapes::ResidualNorm{c.a.rows, c.a.cols, c.a.eps, 0, c.type_in("dh"), 0, c.type_in("x")},
                     c.in("x"), c.in("mean"), c.in("rstd"), c.in("gamma"), c.in("dh"), c.out("dx"), c.a.first,
                     c.out("dy"), c.out("dgamma"), c.out("dbeta"), c.out("dbias"), c.a.accumulate);
}

template <auto kernel, class L>
void run_norm_residual(const OpCall<plan::OpKind::norm_residual, L>& c) {
  c.run(kernel, shapes::ResidualNorm{c.a.rows, c.a.cols, c.a.eps, 0, c.type_in("x")}, c.in("x"),
        c.in("residual"), c.in("gamma"), c.in("beta"), c.out("h"), c.out("y"), c.out("mean"), c.out("rstd"));
}

template <auto kernel, class L>
void run_norm_residual_backward(const OpCall<plan::OpKind::norm_residual_backward, L>& c) {
  c.run_in_workspace(kernel, shapes::ResidualNorm{c.a.rows, c.a.cols, c.a.eps, 0, c.type_in("x")}, c.in("x"),
                     c.in("mean"), c.in("rstd"), c.in("gamma"), c.in("dh"), c.out("dx"), c.out("dgamma"),
                     c.out("dbeta"), c.out("dbias"), c.a.accumulate);
}

template <auto kernel, class L>
void run_rms_norm(const OpCall<plan::OpKind::rms_norm, L>& c) {
  c.run(kernel, shapes::norm_of(c.a, c.type_out("h"), c.type_in("residual")), c.in("residual"), c.in("y"),
        c.in("gamma"), c.out("x"), c.out("h"), c.out("rstd"));
}

template <auto kernel, class L>
void run_rms_norm_backward(const OpCall<plan::OpKind::rms_norm_backward, L>& c) {
  c.run_in_workspace(kernel, shapes::norm_of(c.a, c.type_in("dh"), c.type_in("x")), c.in("x"), c.in("rstd"),
                     c.in("gamma"), c.in("dh"), c.out("dx"), c.a.first, c.out("dy"), c.out("dgamma"),
                     c.a.accumulate);
}

// ---- single elements and columns --------------------------------------------------------------------------

template <auto kernel, class L>
void run_residual_add(const OpCall<plan::OpKind::residual_add, L>& c) {
  c.a.each_run([&](int64_t from, int64_t row, int64_t rows) {
    const int64_t n = rows * c.a.cols;
    const auto part = [&](const plan::View& v, int64_t first) { return c.at(v.slice(first * c.a.cols, n)); };
    c.run(kernel, n, c.type_in("y"), part(c.view_in("residual"), from), part(c.view_in("y"), row),
          part(c.view_out("x"), row), c.type_in("residual"));
  });
}

template <auto kernel, class L>
void run_activation(const OpCall<plan::OpKind::activation, L>& c) {
  c.run(kernel, c.a.function, c.a.rows * c.a.cols, c.type_in("u"), c.in("u"), c.out("g"));
}

template <auto kernel, class L>
void run_activation_backward(const OpCall<plan::OpKind::activation_backward, L>& c) {
  c.run_in_workspace(kernel, c.a.function, c.a.rows, c.a.cols, c.type_in("u"), c.in("u"), c.in("dg"),
                     c.out("du"), c.out("dbias"), c.a.accumulate);
}

template <auto kernel, class L>
void run_column_sum(const OpCall<plan::OpKind::column_sum, L>& c) {
  c.run_in_workspace(kernel, c.a.rows, c.a.cols, c.type_in("x"), c.in("x"), c.out("sum"), c.a.accumulate);
}

template <auto kernel, class L>
void run_period_sum(const OpCall<plan::OpKind::period_sum, L>& c) {
  c.run(kernel, c.a.rows, c.a.cols, c.a.period, c.a.row0, c.in("dx"), c.out("dpos"), c.a.accumulate);
}

template <auto kernel, class L>
void run_swap(const OpCall<plan::OpKind::swap, L>& c) {
  c.run(kernel, c.a.count, c.out("x"), c.out("y"));
}

// ---- images -----------------------------------------------------------------------------------------------

template <auto kernel, class L>
void run_patch_gather(const OpCall<plan::OpKind::patch_gather, L>& c) {
  c.run(kernel, shapes::patch_of(c.a, c.type_out("patches")), c.in("image"), c.out("patches"));
}

template <auto kernel, class L>
void run_roll(const OpCall<plan::OpKind::roll, L>& c) {
  c.run(kernel, shapes::patch_of(c.a.image, c.type_out("patches")),
        shapes::Roll{c.a.predicted, c.a.history, c.type_in("prediction")}, c.in("prediction"), c.in("before"),
        c.in("forcing"), c.out("patches"));
}

template <auto kernel, class L>
void run_unroll(const OpCall<plan::OpKind::unroll, L>& c) {
  c.run(kernel, shapes::patch_of(c.a.image, c.type_in("patches")),
        shapes::Roll{c.a.predicted, c.a.history, c.type_out("prediction")}, c.in("patches"),
        c.out("prediction"), c.out("carried"));
}

// ---- graphs -----------------------------------------------------------------------------------------------

template <auto kernel, class L>
void run_gather(const OpCall<plan::OpKind::gather, L>& c) {
  const DType act = c.type_in("table");
  const auto rows = [&](const plan::View& table) { return table.count / (c.a.batch * c.a.cols); };
  c.run(kernel,
        shapes::Gather{c.a.batch, c.a.rows / c.a.batch, c.a.cols, rows(c.view_in("table")),
                       rows(c.view_in("table2")), act, c.in("base") ? c.type_in("base") : act},
        c.in("base"), c.in("table"), c.in("index"), c.in("table2"), c.in("index2"), c.out("y"));
}

template <auto kernel, class L>
void run_segment_sum(const OpCall<plan::OpKind::segment_sum, L>& c) {
  c.run(kernel,
        shapes::SegmentSum{c.a.batch, c.a.rows / c.a.batch, c.a.cols,
                           c.view_out("y").count / (c.a.batch * c.a.cols), c.type_in("x")},
        c.in("x"), c.in("offsets"), c.in("order"), c.out("y"));
}

// ---- language ---------------------------------------------------------------------------------------------

template <auto kernel, class L>
void run_rotary(const OpCall<plan::OpKind::rotary, L>& c) {
  c.run(kernel, shapes::rotary_of(c.a, c.type_out("qk")), false, c.in("table"), c.out("qk"));
}

template <auto kernel, class L>
void run_rotary_backward(const OpCall<plan::OpKind::rotary_backward, L>& c) {
  c.run(kernel, shapes::rotary_of(c.a, c.type_out("dqk")), true, c.in("table"), c.out("dqk"));
}

template <auto kernel, class L>
void run_latent_heads(const OpCall<plan::OpKind::latent_heads, L>& c) {
  c.run(kernel, shapes::heads_of(c.a, c.type_out("qkv")), c.in("table"), c.in("q"), c.in("kv"), c.in("key"),
        c.out("qkv"));
}

template <auto kernel, class L>
void run_latent_heads_backward(const OpCall<plan::OpKind::latent_heads_backward, L>& c) {
  c.run(kernel, shapes::heads_of(c.a, c.type_in("dqkv")), c.in("table"), c.in("dqkv"), c.out("dq"),
        c.out("dkv"), c.out("dkey"));
}

template <auto kernel, class L>
void run_embedding(const OpCall<plan::OpKind::embedding, L>& c) {
  c.run(kernel,
        shapes::Embedding{c.a.rows, c.a.cols, c.a.word0, c.view_in("table").count / c.a.cols, c.a.tokens,
                          c.type_in("table"), c.type_out("x")},
        c.in("tokens"), c.in("table"), c.in("positions"), c.out("x"));
}

template <auto kernel, class L>
void run_embedding_backward(const OpCall<plan::OpKind::embedding_backward, L>& c) {
  c.run(kernel,
        shapes::Embedding{c.a.rows, c.a.cols, c.a.word0, c.view_out("dtable").count / c.a.cols, c.a.tokens,
                          DType::f32, c.type_in("dx")},
        c.in("tokens"), c.in("dx"), c.out("dtable"), c.out("dpositions"),
        c.view_out("dpositions").count / c.a.cols, shapes::AddsTo{c.a.accumulate, !c.a.first});
}

template <class Call>
shapes::Classes classes_of(const Call& c, DType labels = DType::f32) {
  return {c.a.rows, c.a.cols, c.type_in("logits"), labels, c.a.column0, c.a.padding, c.a.tokens};
}

template <auto kernel, class L>
void run_cross_entropy_max(const OpCall<plan::OpKind::cross_entropy_max, L>& c) {
  c.run(kernel, classes_of(c), c.in("logits"), c.out("largest"));
}

template <auto kernel, class L>
void run_cross_entropy_sums(const OpCall<plan::OpKind::cross_entropy_sums, L>& c) {
  c.run(kernel, classes_of(c, c.type_in("labels")), c.in("logits"), c.in("labels"), c.in("largest"),
        c.out("sums"));
}

// ---- experts ----------------------------------------------------------------------------------------------

template <auto kernel, class L>
void run_route(const OpCall<plan::OpKind::route, L>& c) {
  c.run(kernel, shapes::route_of(c.a), c.in("logits"), c.in("bias"), c.in("counts"),
        shapes::Routing{c.out("order"), c.out("place"), c.out("chosen"), c.out("offsets"), c.out("weights"),
                        c.out("lse"), c.out("sums")});
}

/// The routing that a forward pass has left, without the order of copies.
template <class Call>
shapes::Routing routing_of(const Call& c) {
  return {nullptr,         c.in("place"), c.in("chosen"), c.in("offsets"),
          c.in("weights"), c.in("lse"),   c.in("sums")};
}

template <auto kernel, class L>
void run_dispatch(const OpCall<plan::OpKind::dispatch, L>& c) {
  const DType act = c.type_in("x");
  c.run(kernel, shapes::Gather{1, c.a.rows * c.a.top, c.a.cols, c.a.rows, 0, act, act}, nullptr, c.in("x"),
        c.in("order"), nullptr, nullptr, c.out("y"));
}

}  // namespace isobar
