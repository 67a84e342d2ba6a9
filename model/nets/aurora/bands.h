// Aurora's grids cut over the ranks of context parallelism: each has a band of latitudes at every resolution,
// and computes the windows whose middle row lies in it. Rows of a window that lie in another band come before
// attention and go back behind it.
//
//   const Bands bands = bands_at({180, 90, 45}, 1, 4);  // 45 coarse rows over 4 ranks: 12, 11, 11, 11
//   bands.first(1), bands.rows(1)                       // 24, 22: what the second has of the 90
//   const RowExchange x = exchange_of(grid, batch, bands, {from of every rank}, rank);
//
// Bands end where the coarsest rows do: four neighbours that merge lie on one rank.
#pragma once
#include <cstdint>
#include <vector>

#include "model/nets/aurora/windows.h"

namespace isobar::aurora {

/// `rows`: latitudes of each resolution, the finest first. At least as many of the coarsest as ranks.
Bands bands_at(const std::vector<int64_t>& rows, size_t resolution, int64_t ranks);

/// What one rank exchanges so that its windows have their rows; and the other way round.
struct RowExchange {
  std::vector<int32_t> from_own, from_others;  // [inside] the row of the own band, of those that came; -1
  std::vector<int32_t> to_own, to_others;      // [band's rows] the place inside, among those that came; -1
  std::vector<int32_t> sent;                   // own rows that lie in others' windows, by rank
  std::vector<int32_t> returned;               // places inside whose rows are others', by rank
  std::vector<int64_t> send, receive;  // rows to and from each rank; of what returns it is receive, send
  bool any = false;                    // some rank exchanges rows
};
/// `from`: by rank, rows of the whole grid [batch, levels, latitudes, longitudes] at each place, or -1; each
/// row once.
RowExchange exchange_of(const Sizes3& grid, int64_t batch, const Bands& bands,
                        const std::vector<std::vector<int32_t>>& from, int64_t rank);

}  // namespace isobar::aurora
