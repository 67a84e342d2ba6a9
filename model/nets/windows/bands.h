// Grids of windows cut over context parallelism: each rank has a band of latitudes at every resolution and
// computes the windows whose middle row lies in it. Window rows of other bands are fetched before attention
// and returned after it.
//
//   const Bands bands = bands_at({180, 90, 45}, 1, 4);  // 45 coarse rows over 4 ranks: 12, 11, 11, 11
//   bands.first(1), bands.rows(1)                       // 24, 22: the second rank's rows of the 90
//   const RowExchange x(windows, batch, bands, rank);  // x.send, x.receive; x.tables().sent
//
// Bands end on coarsest rows, so that four neighbours that merge are on one rank.
#pragma once
#include <cstdint>
#include <mutex>
#include <vector>

#include "model/nets/windows/windows.h"

namespace isobar::nets {

/// `rows`: latitudes of each resolution, finest first. The coarsest has at least one row a rank.
Bands bands_at(const std::vector<int64_t>& rows, size_t resolution, int64_t ranks);

/// The rows that one rank exchanges to complete its windows, and to return the results. How many there are
/// follows from latitudes; the tables are as long as the band and are made when they are first read.
class RowExchange {
 public:
  RowExchange(const WindowGrid& of, int64_t batch, const Bands& bands, int64_t rank);

  int64_t inside, own, outside;        // rows of its windows, of those it completes alone, and of its band
  std::vector<int64_t> send, receive;  // rows to and from each rank; for returned rows it is receive, send
  bool any = false;                    // some rank exchanges rows

  struct Tables {
    std::vector<int32_t> from_own, from_others;  // [inside] row of the own band, of the received rows; -1
    std::vector<int32_t> to_own, to_others;      // [band's rows] place inside, among the returned rows; -1
    std::vector<int32_t> sent;                   // own rows in other ranks' windows, by rank
    std::vector<int32_t> returned;               // places inside whose rows belong to others, by rank
  };
  const Tables& tables() const;

 private:
  Tables made() const;
  const WindowGrid of_;
  const int64_t batch_;
  const Bands bands_;
  const int64_t rank_;
  mutable std::once_flag once_;
  mutable Tables tables_;
};

}  // namespace isobar::nets
