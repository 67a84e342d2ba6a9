// An MLP of columns or pixels.
#pragma once
#include <cstdint>
#include <vector>

#include "model/base/net_specs/net_answers.h"

namespace isobar {

// Numbers in, numbers out, with linears and activations between, as emulators of a column's physics are.
struct MlpSpec : NetAnswers {
  static constexpr const char *kKind = "mlp", *kDepthKey = "net.hidden";
  static constexpr bool kReadsRows = true;
  int64_t in_features = 14;
  int64_t out_features = 1;
  std::vector<int64_t> hidden = {64, 64, 64};  // widths between them, an activation after each
  Activation activation = Activation::gelu;
  double dropout = 0.0;  // of each hidden layer's outputs
  int64_t outputs() const { return out_features; }
  int64_t sample_numbers() const { return in_features + out_features; }
  int64_t tokens() const { return 1; }
  int64_t width() const { return hidden.empty() ? 0 : hidden.front(); }
  int64_t heads() const { return 1; }
  int64_t blocks() const { return static_cast<int64_t>(hidden.size()); }
  void add_rows(KeyRows& to);
  void check_lists(const SpecCheck& check) const;
  RoughSize rough_size(bool unfused) const;
};

}  // namespace isobar
