// Nets that classify: an mlp with train.loss: cross_entropy, whose outputs are the logits of classes 0, 1, …
// and whose target is one number, the class.
//
//   classifies(spec)                       // true
//   classes_of(spec)                       // spec.net.mlp().out_features; 0 of a net that predicts numbers
#pragma once
#include "model/base/spec/spec.h"

namespace isobar {

inline bool classifies(const RunSpec& s) {
  return s.net.reads_rows() && s.train.loss == LossKind::cross_entropy;
}

inline int64_t classes_of(const RunSpec& s) {
  return classifies(s) ? s.net.outputs() : 0;
}

}  // namespace isobar
