#include "model/comm/heartbeat.h"

#include <stdexcept>

namespace isobar {
namespace {

void check(int code, const char* what) {
  if (code != MPI_SUCCESS) throw std::runtime_error(std::string(what) + " failed");
}

}  // namespace

Heartbeat::Heartbeat(const Mpi* mpi) {
  if (mpi && mpi->size() > 1) check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
}

Heartbeat::~Heartbeat() {
  if (comm_ != MPI_COMM_NULL && request_ == MPI_REQUEST_NULL) MPI_Comm_free(&comm_);
}

void Heartbeat::post(const Values& mine) {
  mine_ = all_ = mine;
  if (comm_ == MPI_COMM_NULL) return;
  check(MPI_Iallreduce(mine_.data(), all_.data(), static_cast<int>(mine_.size()), MPI_INT64_T, MPI_MAX, comm_,
                       &request_),
        "MPI_Iallreduce");
}

bool Heartbeat::test() {
  int done = 1;
  if (comm_ != MPI_COMM_NULL) check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

}  // namespace isobar
