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

RowExchange::RowExchange(const WindowGrid& of, int64_t batch, const Bands& bands, int64_t rank)
    : outside(batch * of.grid[0] * bands.rows(rank) * of.grid[2]),
      send(static_cast<size_t>(bands.ranks())),
      receive(send.size()),
      of_(of),
      batch_(batch),
      bands_(bands),
      rank_(rank) {
  const int64_t rows_of_latitude = batch * of.grid[0] * of.grid[2];
  for (int64_t computing = 0; computing < bands.ranks(); ++computing) {
    const WindowOrder windows(of, batch, bands, computing);
    if (computing == rank) inside = windows.rows(), own = windows.own_rows();
    for (const int32_t latitude : windows.latitudes()) {
      const int64_t owner = bands.owner(latitude);
      if (owner == computing) continue;
      any = true;
      if (computing == rank) receive[static_cast<size_t>(owner)] += rows_of_latitude;
      if (owner == rank) send[static_cast<size_t>(computing)] += rows_of_latitude;
    }
  }
}

const RowExchange::Tables& RowExchange::tables() const {
  std::call_once(once_, [this] { tables_ = made(); });
  return tables_;
}

RowExchange::Tables RowExchange::made() const {
  const Sizes3& grid = of_.grid;
  const auto ranks = static_cast<int32_t>(bands_.ranks()), me = static_cast<int32_t>(rank_);
  const auto across = static_cast<uint32_t>(grid[2]), latitudes = static_cast<uint32_t>(grid[1]);
  std::vector<int32_t> owners, in_owner;  // by latitude: the rank, and the row in its band
  for (int64_t h = 0; h < grid[1]; ++h) {
    owners.push_back(static_cast<int32_t>(bands_.owner(h)));
    in_owner.push_back(static_cast<int32_t>(h - bands_.first(owners.back())));
  }
  std::vector<int32_t> owner_of;  // by row of a level
  for (const int32_t r : owners) owner_of.insert(owner_of.end(), across, r);
  const uint32_t level_rows = across * latitudes;
  const auto owner = [&](int32_t row) { return owner_of[static_cast<uint32_t>(row) % level_rows]; };
  const auto in_band = [&](int32_t row) {  // in its owner's band
    const uint32_t line = static_cast<uint32_t>(row) / across, level = line / latitudes, h = line % latitudes;
    const auto rows = static_cast<uint32_t>(bands_.rows(owners[h]));
    return static_cast<int32_t>((level * rows + static_cast<uint32_t>(in_owner[h])) * across +
                                static_cast<uint32_t>(row) % across);
  };
  Tables x;
  const std::vector<int32_t> mine = WindowOrder(of_, batch_, bands_, rank_).from();
  x.from_own.assign(mine.size(), -1), x.from_others.assign(mine.size(), -1);
  x.to_own.assign(static_cast<size_t>(outside), -1), x.to_others.assign(static_cast<size_t>(outside), -1);
  std::vector<std::vector<int32_t>> places_of(static_cast<size_t>(ranks));  // inside, by owner
  for (size_t i = 0; i < mine.size(); ++i) {
    if (mine[i] < 0) continue;
    const int32_t r = owner(mine[i]);
    if (r != me) {
      places_of[static_cast<size_t>(r)].push_back(static_cast<int32_t>(i));
      continue;
    }
    x.from_own[i] = in_band(mine[i]);
    x.to_own[static_cast<size_t>(x.from_own[i])] = static_cast<int32_t>(i);
  }
  for (int32_t other = 0; other < ranks; ++other) {
    for (const int32_t i : places_of[static_cast<size_t>(other)]) {
      x.from_others[static_cast<size_t>(i)] = static_cast<int32_t>(x.returned.size());
      x.returned.push_back(i);
    }
    if (other == me) continue;
    for (const int32_t row : WindowOrder(of_, batch_, bands_, other).from()) {
      if (row < 0 || owner(row) != me) continue;
      x.to_others[static_cast<size_t>(in_band(row))] = static_cast<int32_t>(x.sent.size());
      x.sent.push_back(in_band(row));
    }
  }
  return x;
}

}  // namespace isobar::nets
