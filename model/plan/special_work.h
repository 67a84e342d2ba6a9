// Work of the ops that do not simply read and write each operand once (op_table.h: `special`). Each is given
// what that would be and corrects it.
#pragma once
#include "model/plan/work.h"

namespace isobar::special {

using Correct = void(const Op&, const Plan&, Work&);

// Products and attention: two products forward, five backward (one of them recomputed), each 2 tq tk d;
// causal needs half of them
Correct gemm, attention, attention_backward, attention_merge;
// What is updated in place, or added to, is read too
Correct added_unless_first, added_if_accumulating, adam, sgd, average;
// Strided views and tables: what is touched, not the span
Correct rotary, copy, embedding, embedding_backward, gather;
// Over the network: ring algorithms, nccl-tests' factors of bus bandwidth
Correct all_reduce, broadcast, all_gather, reduce_scatter, all_to_all, sent, received;

}  // namespace isobar::special
