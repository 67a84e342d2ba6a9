#include "model/nets/windows/windows.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

namespace isobar::nets {
namespace {

// The index in `from` of each grid row; padding (-1) is skipped
std::vector<int32_t> inverse(const std::vector<int32_t>& from, int64_t rows) {
  std::vector<int32_t> to(static_cast<size_t>(rows));
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] >= 0) to[from[i]] = static_cast<int32_t>(i);
  return to;
}

}  // namespace

std::string WindowRun::text() const {
  if (sides == Sizes3{1, 1, 1}) return std::to_string(length);
  return (sides[0] > 1 ? std::to_string(sides[0]) + "x" : "") + std::to_string(sides[1]) + "x" +
         std::to_string(sides[2]);
}

// The segments of all windows along one axis; a window at least as long as the axis is the whole axis,
// unshifted. After the shift's roll a mask separates what wrapped around, unless it is a circle. Aurora's
// separates the last window from what is before it, too.
std::vector<WindowOrder::Segment> WindowOrder::along(size_t axis, bool shifts) const {
  const int64_t size = of_.grid[axis];
  int64_t window = of_.window[axis], shift = shifts ? window / 2 : 0;
  if (size <= window) window = size, shift = 0;
  const bool circle = axis == 2 && of_.circle, padded = of_.as_aurora && !shifts;
  const int64_t pad = (window - size % window) % window, before = pad / 2, windows = (size + pad) / window;
  std::vector<Segment> out;
  for (int64_t w = 0; w < windows; ++w) {
    std::map<int64_t, Segment> regions;
    for (int64_t i = w * window; i < (w + 1) * window; ++i) {
      const int64_t rolled = i - before;
      const bool outside = rolled < 0 || rolled >= size;
      if (outside && !padded) continue;
      int64_t region = 0;
      if (shift > 0 && rolled >= size - shift && !circle)
        region = 2;
      else if (shift > 0 && rolled >= size - window && of_.as_aurora)
        region = 1;
      regions[outside ? 0 : region].push_back(outside ? -1 : static_cast<int32_t>((rolled + shift) % size));
    }
    for (auto& [region, segment] : regions) out.push_back(std::move(segment));
  }
  return out;
}

WindowOrder::WindowOrder(const WindowGrid& of, int64_t batch)
    : of_(of), batch_(batch), end_(static_cast<int32_t>(of.grid[1])) {
  // A grid that fits into one window along every axis is not shifted and needs no mask.
  const bool larger = of.grid[0] > of.window[0] || of.grid[1] > of.window[1] || of.grid[2] > of.window[2];
  for (size_t axis = 0; axis < 3; ++axis) axes_[axis] = along(axis, of.shifted && larger);
  count_runs();
}

WindowOrder::WindowOrder(const WindowGrid& of, int64_t batch, const Bands& bands, int64_t rank)
    : WindowOrder(of, batch) {
  first_ = static_cast<int32_t>(bands.first(rank)), end_ = static_cast<int32_t>(bands.first(rank + 1));
  const auto elsewhere = [&](const Segment& s) {
    int32_t north = -1, south = -1;
    for (const int32_t row : s) {
      if (row >= 0 && (north < 0 || row < north)) north = row;
      south = std::max(south, row);
    }
    return bands.owner((north + south) / 2) != rank;
  };
  axes_[1].erase(std::remove_if(axes_[1].begin(), axes_[1].end(), elsewhere), axes_[1].end());
  if (axes_[1].empty()) {
    for (std::vector<Segment>& axis : axes_) axis = {Segment{-1}};
    batch_ = 1;
  }
  count_runs();
}

bool WindowOrder::shared(const Segment& latitudes) const {
  return std::any_of(latitudes.begin(), latitudes.end(),
                     [&](int32_t row) { return row >= 0 && (row < first_ || row >= end_); });
}

// Shared windows last; within each, the longest first
bool WindowOrder::Kind::operator<(const Kind& k) const {
  return std::make_tuple(shared, -rows, volume, sides) <
         std::make_tuple(k.shared, -k.rows, k.volume, k.sides);
}

WindowOrder::Kind WindowOrder::Kind::operator*(const Kind& k) const {
  Kind out{shared || k.shared, rows * k.rows, volume * k.volume, sides};
  for (size_t axis = 0; axis < 3; ++axis) out.sides[axis] *= k.sides[axis];
  return out;
}

WindowOrder::Kind WindowOrder::kind_along(size_t axis, const Segment& s) const {
  Kind kind{axis == 1 && shared(s),
            std::count_if(s.begin(), s.end(), [](int32_t place) { return place >= 0; }),
            static_cast<int64_t>(s.size()),
            {1, 1, 1}};
  if (of_.by_sides) kind.sides[axis] = kind.rows;
  return kind;
}

void WindowOrder::count_runs() {
  std::map<Kind, int64_t> segments{{{false, 1, 1, {1, 1, 1}}, 1}};
  for (size_t axis = 0; axis < 3; ++axis) {
    std::map<Kind, int64_t> longer;
    for (const auto& [kind, count] : segments)
      for (const Segment& s : axes_[axis]) longer[kind * kind_along(axis, s)] += count;
    segments = std::move(longer);
  }
  runs_.clear();
  for (const auto& [kind, count] : segments)
    runs_.push_back({.segments = batch_ * count,
                     .length = kind.length(),
                     .sides = kind.sides,
                     .last_counts = std::max<int64_t>(1, kind.volume - kind.rows),
                     .shared = kind.shared});
}

int64_t WindowOrder::rows() const {
  int64_t rows = 0;
  for (const WindowRun& r : runs_) rows += r.rows();
  return rows;
}

int64_t WindowOrder::own_rows() const {
  int64_t rows = 0;
  for (const WindowRun& r : runs_) rows += r.shared ? 0 : r.rows();
  return rows;
}

std::vector<int32_t> WindowOrder::latitudes() const {
  std::vector<int32_t> out;
  for (const Segment& s : axes_[1])
    std::copy_if(s.begin(), s.end(), std::back_inserter(out), [](int32_t row) { return row >= 0; });
  return out;
}

std::vector<int32_t> WindowOrder::from() const {
  std::map<Kind, std::vector<int32_t>> by_kind;
  for (int64_t sample = 0; sample < batch_; ++sample)
    for (const Segment& levels : axes_[0])
      for (const Segment& rows : axes_[1])
        for (const Segment& columns : axes_[2]) {
          const Kind kind = kind_along(0, levels) * kind_along(1, rows) * kind_along(2, columns);
          std::vector<int32_t>& out = by_kind[kind];
          for (const int64_t c : levels)
            for (const int64_t h : rows)
              for (const int64_t w : columns)
                if (c >= 0 && h >= 0 && w >= 0)
                  out.push_back(
                      static_cast<int32_t>(((sample * of_.grid[0] + c) * of_.grid[1] + h) * of_.grid[2] + w));
          if (kind.padded()) out.push_back(-1);
        }
  std::vector<int32_t> from;
  from.reserve(static_cast<size_t>(rows()));
  for (const auto& [kind, rows] : by_kind) from.insert(from.end(), rows.begin(), rows.end());
  return from;
}

std::vector<int32_t> WindowOrder::to() const {
  return inverse(from(), batch_ * of_.rows());
}

// ---- four neighbours ----

std::vector<int32_t> Neighbours::from() const {
  const Sizes3 of = coarse();
  std::vector<int32_t> out;
  out.reserve(static_cast<size_t>(4 * batch * of[0] * of[1] * of[2]));
  for (int64_t level = 0; level < batch * of[0]; ++level)
    for (int64_t row = 0; row < of[1]; ++row)
      for (int64_t column = 0; column < of[2]; ++column)
        for (int64_t k = 0; k < 4; ++k) {
          const int64_t h = 2 * row + k / 2, w = 2 * column + k % 2;
          out.push_back(h < fine[1] && w < fine[2] ? static_cast<int32_t>((level * fine[1] + h) * fine[2] + w)
                                                   : -1);
        }
  return out;
}

std::vector<int32_t> Neighbours::to() const {
  return inverse(from(), batch * fine[0] * fine[1] * fine[2]);
}

}  // namespace isobar::nets
