// Constraints of a layout search: fixed axes and policies, and excluded values.
//
//   Constraints keep = given_layout(spec, {"layout.tp=8"});   // from --set
//   keep.fix("pp=2..8");                                       // --fix: a value, or from … to
//   keep.exclude("zero=3,recompute=full");                     // --exclude: none of these
//   keep.allows(LayoutAxis::pp, 4)
//
// All constraints hold at once. A single fixed value overrides the search's own bounds (gpipe, a tp of 128);
// a range only narrows them.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"

namespace isobar::perf {

enum class LayoutAxis : uint8_t {
  dp,
  tp,
  cp,
  pp,
  vpp,
  micro_batch,
  schedule,
  zero,
  recompute,
  cp_kind,
  order,
  ep,
  sequence_parallel,  // if tp > 1
  workers
};
constexpr size_t kLayoutAxes = static_cast<size_t>(LayoutAxis::workers) + 1;

struct Constraint {
  LayoutAxis axis;
  int64_t from = 0, to = 0;  // words as indices, as in Layout
  bool excluded = false;
  std::string text;    // as given: "--fix tp=2..8"
  bool fixed = false;  // by the engine, "fsdp has no tp": it cannot be left out
};

class Constraints {
 public:
  void add(Constraint c);
  /// "tp=8", "tp=2..8", several with commas. Throws ConfigError that names the axes and their values.
  void fix(const std::string& list);
  void exclude(const std::string& list);

  bool allows(LayoutAxis axis, int64_t value) const;
  /// The fixed value, if exactly one is allowed.
  std::optional<int64_t> only(LayoutAxis axis) const;
  const std::vector<Constraint>& all() const { return all_; }
  /// "layout.tp=8, --exclude zero=3", for display
  std::string text() const;
  /// All but one.
  Constraints without(size_t index) const;

 private:
  std::vector<Constraint> all_;
  std::array<std::vector<Constraint>, kLayoutAxes> by_axis_;
};

/// Constraints from `--set` assignments (with values in `spec`): those of layout.* and policy.* that a search
/// would choose; others apply to every layout. Throws ConfigError for a micro-batch of 0.
Constraints given_layout(const RunSpec& spec, const std::vector<std::string>& assignments);

}  // namespace isobar::perf
