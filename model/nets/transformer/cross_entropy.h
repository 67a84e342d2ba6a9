// The cross entropy loss over classes or a vocabulary: -log softmax(logits)[label], a mean over the rows of a
// step. Forward leaves the gradient of the logits, in its own buffer or over the logits, and adds to the
// metrics: the loss and, if the net has that metric, the share of rows whose largest logit is the label's.
//
//   cross_entropy_forward(e, at, {.rows = rows, .cols = classes}, logits, labels, dlogits);
#pragma once
#include "model/nets/layers.h"

namespace isobar::nets {

/// `a`: rows of columns, the first of class column0. Under tensor parallelism a rank holds some columns;
/// only each row's largest logit, sum of exponentials and label's logit are exchanged. `labels` [m] f32 or
/// i32.
void cross_entropy_forward(Emission& e, const Sharding& at, plan::CrossEntropyAttrs a,
                           const plan::View& logits, const plan::View& labels, const plan::View& dlogits);

}  // namespace isobar::nets
