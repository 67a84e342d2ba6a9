// The windows of a grid by the published method: a padded, rolled grid under a mask.
#pragma once
#include <array>
#include <map>
#include <set>

#include "model/nets/windows/windows.h"

namespace isobar::plan {

/// For each grid row, the rows that it attends to; -1 stands for all zeros of its window. As published codes
/// do: roll, pad on both sides, cut into windows, and mask what wrapped around and the padding. Aurora's
/// masks only shifted windows, and three regions an axis (the last two of a circle are one).
inline std::map<int64_t, std::multiset<int64_t>> published(const nets::WindowGrid& of) {
  using Row = std::array<int64_t, 3>;
  const nets::Sizes3& grid = of.grid;
  const bool shifted = of.shifted;
  nets::Sizes3 window = of.window, shift{}, pad{}, padded{};
  for (int i = 0; i < 3; ++i) {
    shift[i] = shifted ? window[i] / 2 : 0;
    if (grid[i] <= window[i]) shift[i] = 0, window[i] = grid[i];
    pad[i] = (window[i] - grid[i] % window[i]) % window[i];
    padded[i] = grid[i] + pad[i];
  }
  const bool masks = shift[0] || shift[1] || shift[2];
  const auto region = [&](int axis, int64_t rolled) -> int64_t {
    if (shift[axis] == 0) return 0;
    const bool circle = axis == 2 && of.circle;
    if (!of.as_aurora) return rolled < grid[axis] - shift[axis] || circle ? 0 : 2;
    if (rolled < grid[axis] - window[axis]) return 0;
    return rolled < grid[axis] - shift[axis] || circle ? 1 : 2;
  };
  std::map<std::array<int64_t, 7>, std::multiset<int64_t>> groups;  // by window and region
  std::map<int64_t, std::array<int64_t, 7>> group_of;
  for (int64_t c = 0; c < padded[0]; ++c)
    for (int64_t h = 0; h < padded[1]; ++h)
      for (int64_t w = 0; w < padded[2]; ++w) {
        const Row at{c, h, w};
        std::array<int64_t, 7> group{};
        Row from{};
        bool padding = false;
        for (int i = 0; i < 3; ++i) {
          const int64_t rolled = at[i] - pad[i] / 2;
          padding = padding || rolled < 0 || rolled >= grid[i];
          group[i] = at[i] / window[i];
          group[3 + i] = masks ? region(i, rolled) : 0;
          from[i] = (rolled + shift[i] + grid[i]) % grid[i];
        }
        if ((masks || !of.as_aurora) && padding) continue;  // a separate group, unused
        const int64_t row = padding ? -1 : (from[0] * grid[1] + from[1]) * grid[2] + from[2];
        if (padding) group[3] = group[4] = group[5] = 0;
        groups[group].insert(row);
        if (!padding) group_of[row] = group;
      }
  std::map<int64_t, std::multiset<int64_t>> out;
  for (const auto& [row, group] : group_of) out[row] = groups[group];
  return out;
}

}  // namespace isobar::plan
