// Linears with an activation after each but the last (MlpSpec), as in emulators of a column's physics.
//
//   embed   input [B, in] -> linear -> activation -> x [B, hidden 0]
//   layer   x [B, hidden i] -> linear -> activation -> x [B, hidden i+1], × hidden layers - 1
//   head    x -> linear -> prediction [B, out] -> loss, and each output's error
//
// Streams are in the type of activations. The loss is that of images of one pixel. With train.loss:
// cross_entropy the outputs are logits, the target is one number, the class, and the share of samples with
// the right largest logit is reported beside the loss. net.dropout acts on each x.
#pragma once
#include <memory>
#include <vector>

#include "model/nets/layout/legal_layout.h"
#include "model/nets/net.h"

namespace isobar::nets {

std::unique_ptr<Net> make_net(const MlpSpec& n, Emission& e, const Sharding& at);
std::vector<plan::Part> parts_of(const MlpSpec& n);
MlpSpec distinct_parts(MlpSpec n);
NetLimits limits_of(const MlpSpec& n);

}  // namespace isobar::nets
