// Classes of ops by which a predictor prices them.
#pragma once
#include <cstdint>

namespace isobar::plan {

/// How a predictor prices an op (coefficients: perfmodel/step/op_terms.h). Row kernels have a price per byte
/// and one per floating point operation.
enum class PriceClass : uint8_t {
  product,
  attention,
  attention_backward,
  norm,
  activation,
  reduction,
  copy,
  loss,
  optimizer,
  transfer  // over the network: by its algorithm
};

}  // namespace isobar::plan
