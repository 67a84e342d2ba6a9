#include "model/comm/heartbeat.h"

#include "model/comm/must.h"
#include "model/comm/yielding.h"

namespace isobar::comm {
Heartbeat::Heartbeat(const Mpi* mpi) {
  const Yielding yielding;
  if (mpi && mpi->size() > 1) must(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
}

Heartbeat::~Heartbeat() {
  const Yielding yielding;
  if (comm_ != MPI_COMM_NULL && request_ == MPI_REQUEST_NULL) MPI_Comm_free(&comm_);
}

void Heartbeat::post(const Values& mine) {
  mine_ = all_ = mine;
  if (comm_ == MPI_COMM_NULL) return;
  must(MPI_Iallreduce(mine_.data(), all_.data(), static_cast<int>(mine_.size()), MPI_INT64_T, MPI_MAX, comm_,
                      &request_),
       "MPI_Iallreduce");
}

bool Heartbeat::test() {
  int done = 1;
  if (comm_ != MPI_COMM_NULL) must(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

}  // namespace isobar::comm
