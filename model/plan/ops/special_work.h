// Work of ops that do not simply read and write each operand once (op_kind.h: `special`). Each function
// corrects that default.
#pragma once
namespace isobar::plan {
struct Op;
struct Plan;
struct Work;
}  // namespace isobar::plan

namespace isobar::plan::special {

using Correct = void(const Op&, const Plan&, Work&);

// Products and attention: two products forward, five backward (one of them recomputed), each 2 tq tk d;
// causal halves them, a window of w tokens of n leaves w/n (1 - w/2n)
Correct gemm, grouped_gemm, attention, attention_backward, attention_merge;
// Operands updated in place, or added to, are read too
Correct added_unless_first, cast, adam, sgd, average;
// Strided views and tables: the elements touched, not the span
Correct rms_norm, rms_norm_backward, rotary, latent_heads, latent_heads_backward, copy, embedding,
    embedding_backward, gather, dispatch, combine;
// As its attributes say
Correct priced;
// Network: ring algorithms, with nccl-tests' busbw factors
Correct all_reduce, broadcast, all_gather, reduce_scatter, all_to_all, sent, received;

}  // namespace isobar::plan::special
