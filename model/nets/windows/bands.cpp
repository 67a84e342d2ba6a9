#include "model/nets/windows/bands.h"

#include <algorithm>

namespace isobar::nets {

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
  const auto ranks = static_cast<int32_t>(bands.ranks()), me = static_cast<int32_t>(rank);
  const auto across = static_cast<uint32_t>(grid[2]), latitudes = static_cast<uint32_t>(grid[1]);
  std::vector<int32_t> owners, in_owner;  // by latitude: the rank, and the row in its band
  for (int64_t h = 0; h < grid[1]; ++h) {
    owners.push_back(static_cast<int32_t>(bands.owner(h)));
    in_owner.push_back(static_cast<int32_t>(h - bands.first(owners.back())));
  }
  std::vector<int32_t> owner_of;  // by row of a level
  for (const int32_t r : owners) owner_of.insert(owner_of.end(), across, r);
  const uint32_t level_rows = across * latitudes;
  const auto owner = [&](int32_t row) { return owner_of[static_cast<uint32_t>(row) % level_rows]; };
  const auto in_band = [&](int32_t row) {  // in its owner's band
    const uint32_t line = static_cast<uint32_t>(row) / across, level = line / latitudes, h = line % latitudes;
    const auto rows = static_cast<uint32_t>(bands.rows(owners[h]));
    return static_cast<int32_t>((level * rows + static_cast<uint32_t>(in_owner[h])) * across +
                                static_cast<uint32_t>(row) % across);
  };
  RowExchange x;
  x.send.assign(static_cast<size_t>(ranks), 0), x.receive.assign(static_cast<size_t>(ranks), 0);
  const std::vector<int32_t>& mine = from[static_cast<size_t>(rank)];
  const auto outside = static_cast<size_t>(batch * grid[0] * bands.rows(rank) * grid[2]);
  x.from_own.assign(mine.size(), -1), x.from_others.assign(mine.size(), -1);
  x.to_own.assign(outside, -1), x.to_others.assign(outside, -1);
  std::vector<std::vector<int32_t>> of(static_cast<size_t>(ranks));  // places inside, by owner
  for (size_t i = 0; i < mine.size(); ++i) {
    if (mine[i] < 0) continue;
    const int32_t r = owner(mine[i]);
    if (r != me) {
      of[static_cast<size_t>(r)].push_back(static_cast<int32_t>(i));
      continue;
    }
    x.from_own[i] = in_band(mine[i]);
    x.to_own[static_cast<size_t>(x.from_own[i])] = static_cast<int32_t>(i);
  }
  for (int32_t other = 0; other < ranks; ++other) {
    const auto to = static_cast<size_t>(other);
    x.receive[to] = static_cast<int64_t>(of[to].size());
    for (const int32_t i : of[to]) {
      x.from_others[static_cast<size_t>(i)] = static_cast<int32_t>(x.returned.size());
      x.returned.push_back(i);
    }
    for (const int32_t row : from[to]) {
      if (row < 0) continue;
      const int32_t r = owner(row);
      x.any = x.any || r != other;
      if (r != me || other == me) continue;
      x.to_others[static_cast<size_t>(in_band(row))] = static_cast<int32_t>(x.sent.size());
      x.sent.push_back(in_band(row)), ++x.send[to];
    }
  }
  return x;
}

}  // namespace isobar::nets
