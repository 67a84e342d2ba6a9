// One rank's NCCL communicators, one for each group of the plan. Their ids travel over MPI; calls run in
// their stream's order.
//
//   NcclComm comm(plan.groups, mpi.rank(), any_two_share_a_device(mpi), bootstrap, spec.run.hang_timeout);
//   comm.launch(op, in, in_count, out, out_count, DType::bf16, streams[op.lane]);
//   while (cudaStreamQuery(stream) == cudaErrorNotReady) comm.check();   // throws if a peer failed
//
// NCCL refuses several ranks of a host on one GPU, so each is given a host id of its own (NCCL_HOSTID) and
// they use sockets. Every call takes its real path, but slowly: for correctness only, and results say so.
#pragma once
#include <nccl.h>

#include <string>
#include <vector>

#include "model/backend/cuda/device_comm.h"
#include "model/comm/comm.h"

namespace isobar::comm {

class NcclComm : public cuda::DeviceComm {
 public:
  /// Every rank of the run calls it, with its device set; `bootstrap` holds the same groups. Throws
  /// cuda::Failure, also if creating a communicator takes longer than `timeout_s`.
  NcclComm(const std::vector<plan::Group>& groups, int rank, bool share_a_device, Comm& bootstrap,
           double timeout_s);
  /// Waits for pending work; aborts it during an exception.
  ~NcclComm() override;
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  void launch(const plan::Op& op, const void* in, int64_t in_count, void* out, int64_t out_count,
              const int32_t* offsets, DType t, cudaStream_t stream) override;
  /// Throws cuda::Failure if a communicator has failed: NCCL reports it only when asked.
  void check() override;
  /// Ends all pending work of this rank: after a failure or a hang, when no other call is allowed.
  void abort() noexcept;

  static std::string version();  // of the library found; throws if there is none

 private:
  std::vector<int32_t> on_host(const plan::Op& op, const int32_t* offsets, cudaStream_t stream);
  void create(const plan::Group& group, int32_t index, int rank, Comm& bootstrap, double timeout_s);
  const std::vector<plan::Group> groups_;
  std::vector<ncclComm_t> comms_;  // by index into groups
  std::vector<int> rank_;
  const int unwinding_;  // exceptions in flight at construction
};

/// True if any two ranks of the run use one GPU. Every rank calls it, with its device set.
bool any_two_share_a_device(const Mpi& mpi);

}  // namespace isobar::comm
