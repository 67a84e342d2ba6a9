// One rank's NCCL communicators, one for each group of the plan. The ids that make them travel over MPI; what
// is launched runs in its stream's order.
//
//   NcclComm comm(plan.groups, mpi.rank(), any_two_share_a_device(mpi), bootstrap, spec.run.hang_timeout);
//   comm.launch(op, in, in_count, out, out_count, DType::bf16, streams[op.lane]);
//   while (cudaStreamQuery(stream) == cudaErrorNotReady) comm.check();   // a peer that failed: throws
//
// Several ranks on one GPU: NCCL refuses that among processes of one host, so each is given a host of its own
// (NCCL_HOSTID) and they talk over sockets. It is the real path of every call, and slow: good for
// correctness, and results say so.
#pragma once
#include <nccl.h>

#include <string>
#include <vector>

#include "model/backend/cuda/device_comm.h"
#include "model/comm/comm.h"

namespace isobar {

class NcclComm : public cuda::DeviceComm {
 public:
  /// Every rank of the run calls it, with its device set. `bootstrap` holds the same groups. Throws
  /// cuda::Failure, also when making one communicator takes longer than `timeout_s`.
  NcclComm(const std::vector<Group>& groups, int rank, bool share_a_device, Comm& bootstrap,
           double timeout_s);
  /// Waits for what is under way; in the course of an exception it aborts instead.
  ~NcclComm() override;
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  void launch(const Op& op, const void* in, int64_t in_count, void* out, int64_t out_count, DType t,
              cudaStream_t stream) override;
  /// Throws cuda::Failure if a communicator has failed since: NCCL tells so only when asked.
  void check() override;
  /// Ends all that is in flight, on this rank: after a failure or a hang, when nothing else may be called.
  void abort() noexcept;

  static std::string version();  // of the library that is found; throws where there is none

 private:
  void create(const Group& group, int32_t index, int rank, Comm& bootstrap, double timeout_s);
  const std::vector<Group> groups_;
  std::vector<ncclComm_t> comms_;  // by index into groups
  std::vector<int> rank_;
  const int unwinding_;  // exceptions on their way when it was made
};

/// Whether any two ranks of the run compute on one GPU. Every rank calls it, with its device set.
bool any_two_share_a_device(const Mpi& mpi);

}  // namespace isobar
