#include "model/nets/windows/bands.h"

#include <algorithm>

namespace isobar {

int64_t Bands::owner(int64_t row) const {
  return std::upper_bound(begins.begin(), begins.end(), row) - begins.begin() - 1;
}

Bands bands_at(const std::vector<int64_t>& rows, size_t resolution, int64_t ranks) {
  Bands bands;
  for (int64_t r = 0; r <= ranks; ++r) {
    const int64_t coarsest = (rows.back() * r + ranks - 1) / ranks;
    bands.begins.push_back(std::min(coarsest << (rows.size() - 1 - resolution), rows[resolution]));
  }
  return bands;
}

RowExchange exchange_of(const Sizes3& grid, int64_t batch, const Bands& bands,
                        const std::vector<std::vector<int32_t>>& from, int64_t rank) {
  const int64_t ranks = bands.ranks(), across = grid[2];
  const auto owner = [&](int32_t row) { return bands.owner(row / across % grid[1]); };
  const auto in_band = [&](int32_t row) {  // in its owner's band
    const int64_t r = owner(row), level = row / (grid[1] * across), h = row / across % grid[1];
    return static_cast<int32_t>((level * bands.rows(r) + h - bands.first(r)) * across + row % across);
  };
  RowExchange x;
  x.send.assign(static_cast<size_t>(ranks), 0), x.receive.assign(static_cast<size_t>(ranks), 0);
  const std::vector<int32_t>& mine = from[static_cast<size_t>(rank)];
  const auto outside = static_cast<size_t>(batch * grid[0] * bands.rows(rank) * across);
  x.from_own.assign(mine.size(), -1), x.from_others.assign(mine.size(), -1);
  x.to_own.assign(outside, -1), x.to_others.assign(outside, -1);
  for (size_t i = 0; i < mine.size(); ++i)
    if (mine[i] >= 0 && owner(mine[i]) == rank) {
      x.from_own[i] = in_band(mine[i]);
      x.to_own[static_cast<size_t>(x.from_own[i])] = static_cast<int32_t>(i);
    }
  for (int64_t other = 0; other < ranks; ++other) {
    const auto to = static_cast<size_t>(other);
    if (other == rank) continue;
    for (size_t i = 0; i < mine.size(); ++i)
      if (mine[i] >= 0 && owner(mine[i]) == other) {
        x.from_others[i] = static_cast<int32_t>(x.returned.size());
        x.returned.push_back(static_cast<int32_t>(i)), ++x.receive[to];
      }
    for (const int32_t row : from[to])
      if (row >= 0 && owner(row) == rank) {
        x.to_others[static_cast<size_t>(in_band(row))] = static_cast<int32_t>(x.sent.size());
        x.sent.push_back(in_band(row)), ++x.send[to];
      }
  }
  for (int64_t r = 0; r < ranks && !x.any; ++r)
    x.any = std::any_of(from[static_cast<size_t>(r)].begin(), from[static_cast<size_t>(r)].end(),
                        [&](int32_t row) { return row >= 0 && owner(row) != r; });
  return x;
}

}  // namespace isobar
