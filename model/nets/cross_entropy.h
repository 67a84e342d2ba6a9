// The loss of classes, among them the words of a vocabulary: -log softmax(logits)[label], a mean over the
// rows of a step. The forward pass leaves the gradient of the logits, in a buffer of its own or over the
// logits, and adds to the metrics: the loss and, where there is room for it, the share of rows whose largest
// logit is the label's.
//
//   cross_entropy_forward(e, at, {.m = rows, .n = classes}, logits, labels, dlogits);
#pragma once
#include "model/nets/layers.h"

namespace isobar {

/// `a`: m rows of n columns, the first of which stands for class column0: under tensor parallelism a rank
/// holds some columns, and only the largest logit, the sum of exponentials and the label's logit of each row
/// travel. `labels` [m] f32 or i32.
void cross_entropy_forward(Emission& e, const Sharding& at, Attrs a, const View& logits, const View& labels,
                           const View& dlogits);

}  // namespace isobar
