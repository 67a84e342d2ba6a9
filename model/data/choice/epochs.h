// Epochs as optimizer steps. An epoch is the whole global batches of the training data, each sample once, in
// one order for any layout (sample_order.h); the rest, less than a batch, is left out, and is another one in
// each epoch.
//
//   spec = with_epochs(spec);                  // train.epochs: 3 of 100 samples in batches of 16:
//   train.steps = 18
#pragma once
#include "model/base/spec/spec.h"

namespace isobar::data {

/// Opens data.train where train.epochs is set; else returns the spec unchanged. Throws ConfigError.
RunSpec with_epochs(const RunSpec& spec);
/// The same, with the files opened in a child process (model/base/system/child.h), once for each data.
RunSpec with_epochs_apart(const RunSpec& spec);

}  // namespace isobar::data
