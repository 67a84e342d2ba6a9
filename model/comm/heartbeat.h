// A maximum over all ranks that is independent of all other communication: one thread of each rank posts and
// tests it, over a communicator of its own. It needs no disk and no shared host.
//
//   Heartbeat beat(&mpi);
//   beat.post({quiet_ms, …});
//   while (!beat.test()) …;        // complete once every rank has posted: a stopped rank keeps it open
//   beat.all()[0];                 // the maximum over ranks
#pragma once
#include <mpi.h>

#include <array>
#include <cstdint>

#include "model/comm/comm.h"

namespace isobar::comm {

class Heartbeat {
 public:
  using Values = std::array<int64_t, 7>;
  explicit Heartbeat(const Mpi* mpi);  // collective over all ranks; null: a world of one
  ~Heartbeat();                        // also collective, unless one is pending: then the run has failed
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// One at a time.
  void post(const Values& mine);
  bool test();
  /// The maximum of each value, after test() returned true.
  const Values& all() const { return all_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;  // null in a world of one
  MPI_Request request_ = MPI_REQUEST_NULL;
  Values mine_{}, all_{};
};

}  // namespace isobar::comm
