// Answers of nets beside their keys, in place of questions for their kind. The usual ones stand here; a kind
// that differs hides them by a member of the same name, and has its rows and checks in net_specs/*.cpp.
#pragma once
#include <cstdint>
#include <optional>

#include "model/base/spec/key_row.h"

namespace isobar {

struct SpecCheck;  // spec_check.h

constexpr int64_t kMostSize = 1 << 17;
constexpr Allowed kNetSize = from_to(1, kMostSize);
constexpr Allowed kGridSpacing = within("[]", 1e-4, 90, "give the grid's step in degrees, e.g. 0.25");

/// The grid that a net computes distances and positions on, in degrees.
struct NetGrid {
  double north, row_step, west, column_step;
  bool turns = false;  // any longitude may be the first one: the globe is turned
};

struct NetAnswers {
  static constexpr bool kRollsOut = false;  // predicts on the grid that it reads: predictions can be fed back
  static constexpr bool kHasEdges = false;  // sends messages along the edges of a graph
  static constexpr bool kReadsRows = false;              // samples are rows of a table
  static constexpr const char* kDepthKey = "net.depth";  // of blocks()
  static constexpr bool kRecorded = false;               // another program's ops: priced, not run
  /// Input time steps by a key of the net itself; 0: data.history gives them.
  int64_t own_history() const { return 0; }
  /// Input channels that follow once after those of all time steps, because they never change.
  int64_t fixed_channels() const { return 0; }
  /// Empty: the net takes its points as they come.
  std::optional<NetGrid> grid() const { return std::nullopt; }
  void check_lists(const SpecCheck&) const {}  // of single keys, beyond their rows
  void check(const SpecCheck&) const {}        // of keys together
};

/// Numbers of a net, roughly and in floating point: whatever passes can be counted in 64 bits.
struct RoughSize {
  double weights = 0;
  double sample = 0;  // activations of one sample
};

}  // namespace isobar
