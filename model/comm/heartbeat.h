// A maximum over all ranks that is formed beside everything else that they do: one thread of each rank posts
// and tests it, whatever the rank's other threads do in MPI meanwhile, over a communicator of its own. It
// passes no disk, and hosts need to see nothing of each other but messages.
//
//   Heartbeat beat(&mpi);
//   beat.post({quiet_ms, …});
//   while (!beat.test()) …;        // over once every rank has posted: a rank that is stopped keeps it open
//   beat.all()[0];                 // the longest of all
#pragma once
#include <mpi.h>

#include <array>
#include <cstdint>

#include "model/comm/comm.h"

namespace isobar {

class Heartbeat {
 public:
  using Values = std::array<int64_t, 7>;
  explicit Heartbeat(const Mpi* mpi);  // collective over all ranks; null: of this one alone
  ~Heartbeat();                        // collective too, unless one is still under way: the run has failed
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// One at a time.
  void post(const Values& mine);
  bool test();
  /// The largest of each value, once test() was true.
  const Values& all() const { return all_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;  // none in a world of one
  MPI_Request request_ = MPI_REQUEST_NULL;
  Values mine_{}, all_{};
};

}  // namespace isobar
