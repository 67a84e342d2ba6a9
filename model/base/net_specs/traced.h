// A net written in PyTorch, as isobar import recorded it: planned, predicted and searched, not trained.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/base/net_specs/net_answers.h"

namespace isobar {

struct TracedNet;  // traced_net.h

struct TracedSpec : NetAnswers {
  static constexpr const char *kKind = "traced", *kDepthKey = "net.file";
  static constexpr bool kRecorded = true;
  std::string file;
  bool compiled = false;
  std::vector<std::string> tensor;  // how linear layers are cut (nets/traced/tensor_cut.h)
  std::vector<int32_t> kept;        // parts, of a net that stands for the whole one; {}: all

  std::shared_ptr<const TracedNet> net() const;
  std::vector<int32_t> part_indices() const;
  int64_t outputs() const { return 1; }
  int64_t sample_numbers() const;
  int64_t tokens() const { return 1; }
  int64_t width() const { return 0; }
  int64_t heads() const { return 1; }
  int64_t blocks() const;
  void add_rows(KeyRows& to);
  void check_lists(const SpecCheck& check) const;
  void check(const SpecCheck& check) const;
  RoughSize rough_size(bool unfused) const;
};

}  // namespace isobar
