// Swin's shifted windows over a grid of levels, latitudes and longitudes (Liu 2021; for weather fields Bodnar
// 2024, supplement B): which rows of the grid attend to one another.
//
//   WindowOrder order({.grid = {4, 45, 90}, .window = {2, 6, 12}, .shifted = true}, batch);
//   order.runs()      // {{512, 144}, {96, 72}, …}: number and length of segments, in this order
//   order.from()      // [rows()] the grid's row at each place of a segment; -1: zeros
//   order.to()        // [grid rows] the place of each row of the grid
//
// No mask is needed: regions that a shifted window's mask separates are segments of their own, and segments
// of one length are adjacent, so that attention over them is one op. Padding is left out. Where longitudes
// are a circle, only levels and latitudes separate wrapped rows. In Aurora's form padding is a key of
// unshifted windows: all of it is zeros, so one row at the segment's end stands for it with a multiplicity.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace isobar::nets {

using Sizes3 = std::array<int64_t, 3>;  // levels, latitudes, longitudes

/// Latitudes of a grid by rank: the first of each rank, and the end.
struct Bands {
  std::vector<int64_t> begins;
  int64_t ranks() const { return static_cast<int64_t>(begins.size()) - 1; }
  int64_t first(int64_t rank) const { return begins[static_cast<size_t>(rank)]; }
  int64_t rows(int64_t rank) const { return first(rank + 1) - first(rank); }
  int64_t owner(int64_t row) const;
  bool operator==(const Bands&) const = default;
};

struct WindowGrid {
  Sizes3 grid, window;
  bool shifted = false;   // by half a window
  bool circle = true;     // the last longitude neighbours the first
  bool by_sides = false;  // runs have segments of equal sides, not only of equal length
  // Aurora's padding and mask, which also separates the last window's rows where padding shifts the windows
  bool as_aurora = false;
  int64_t rows() const { return grid[0] * grid[1] * grid[2]; }
  bool operator==(const WindowGrid&) const = default;
};

struct WindowRun {
  int64_t segments, length;
  Sizes3 sides = {1, 1, 1};  // of each segment, if they are equal
  int64_t last_counts = 1;   // padding rows for which a segment's last row stands
  bool shared = false;       // has rows of another rank's band
  int64_t rows() const { return segments * length; }
  std::string text() const;  // "6x12" if sides are equal, else "72"
};

class WindowOrder {
 public:
  WindowOrder(const WindowGrid& of, int64_t batch);
  /// The windows of one rank: their middle latitude lies in its band. A rank without any gets one row of
  /// zeros, so that all ranks have the same ops; from() has rows of the whole grid, to() has no meaning.
  WindowOrder(const WindowGrid& of, int64_t batch, const Bands& bands, int64_t rank);
  const std::vector<WindowRun>& runs() const { return runs_; }
  int64_t rows() const;
  int64_t own_rows() const;                // rows of runs that are not shared, which come first
  std::vector<int32_t> latitudes() const;  // of its rows, each once
  std::vector<int32_t> from() const;
  std::vector<int32_t> to() const;

 private:
  using Segment = std::vector<int32_t>;  // places along one axis; -1: padding
  struct Kind {                          // windows of one kind are adjacent
    bool shared;
    int64_t rows, volume;  // of the grid; with padding
    Sizes3 sides;
    bool padded() const { return rows < volume; }
    int64_t length() const { return rows + (padded() ? 1 : 0); }
    bool operator<(const Kind& k) const;
    Kind operator*(const Kind& k) const;
  };
  Kind kind_along(size_t axis, const Segment& s) const;
  bool shared(const Segment& latitudes) const;
  void count_runs();
  std::vector<Segment> along(size_t axis, bool shifts) const;

  const WindowGrid of_;
  int64_t batch_;
  std::array<std::vector<Segment>, 3> axes_;
  int32_t first_ = 0, end_ = 0;  // latitudes of the band
  std::vector<WindowRun> runs_;  // longest first, shared ones last
};

/// Two rows by two columns side by side on a grid of half the size, padded at the end if a size is odd:
/// [coarse rows, 4] in the order (row, column), and back.
struct Neighbours {
  Sizes3 fine;
  int64_t batch;
  Sizes3 coarse() const { return {fine[0], (fine[1] + 1) / 2, (fine[2] + 1) / 2}; }
  std::vector<int32_t> from() const;  // [4 * coarse rows] rows of the fine grid; -1: padding
  std::vector<int32_t> to() const;    // [fine rows]
};

}  // namespace isobar::nets
