// The two ends of a language model, around transformer blocks (block.h): embedding of tokens, and loss over
// the vocabulary. Tensor parallelism cuts both by vocabulary (Shoeybi 2019): each rank looks up the tokens
// that it holds and the partial results are summed; each rank keeps its columns of the logits, and only each
// row's largest value, sum of exponentials and label's logit are exchanged.
//
//   embed   tokens -> x [rows, D]: table (gpt: and learned positions)
//   head    x [rows, D] -> norm -> logits [full_rows, V/tp] -> their gradient in place, and the loss, in
//   which
//           the padding of the vocabulary has no part
//
// A tied head is the embedding's table. If first and last stage are different ranks, both hold it and sum
// their gradients at the end of the step.
#pragma once
#include <memory>

#include "model/nets/net.h"
#include "model/nets/transformer/block_shape.h"

namespace isobar::nets {

struct Vocabulary {
  int64_t words;   // of the net, without padding
  int64_t held;    // on one rank, padded
  bool tied;       // the head's weight is the embedding's
  bool positions;  // learned position embeddings
};

/// `dense`: the first blocks, which have no experts
std::unique_ptr<Net> language_model(Emission& e, const Sharding& at, const BlockShape& shape, int64_t depth,
                                    int64_t dense, const BlockShape& of_dense, const Vocabulary& v);

}  // namespace isobar::nets
