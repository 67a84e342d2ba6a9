// The block of Aurora's backbone (Swin v2's in three dimensions, conditioned on the lead time): norms after
// attention and MLP, whose gain and shift are linears of the conditioning (adaptive LayerNorm, Peebles 2023).
//
//   x' = x  + AdaLN(attention in windows (x), s)       s = SiLU(MLP(code of the lead time)) [1, D]: a stream
//   y  = x' + AdaLN(MLP(x'), s)                        that goes from block to block
//
// The zeros that pad the grid take part in attention, as in the published model. All samples of a micro-batch
// share one lead time.
#pragma once
#include <memory>
#include <string>

#include "model/nets/net.h"
#include "model/nets/windows/attention.h"

namespace isobar::nets::aurora {

/// `stage`: index in the encoder or decoder; `of`: its block.
std::string block_name(bool encoder, int64_t stage, int64_t of);

struct SwinBlockShape {
  int64_t width, heads, hidden, condition;
  double eps;
  bool last;  // does not pass the conditioning on
  bool drops = false;
  double drop_path = 0;  // rate for its two results, if it drops
};

std::unique_ptr<NetPart> swin_block(int index, std::string path, std::string name, Emission& e,
                                    const Sharding& at, Windows& windows, const SwinBlockShape& shape);

}  // namespace isobar::nets::aurora
