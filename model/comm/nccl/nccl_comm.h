// One rank's NCCL communicators, one for each group of the plan. The ids that make them travel over MPI; what
// is launched runs in its stream's order.
//
//   NcclComm comm(plan, mpi, bootstrap, spec.run.hang_timeout);      // every rank of the run
//   comm.launch(op, in, {in_count, out_count}, out, DType::bf16, streams[op.lane]);
//   while (cudaStreamQuery(stream) == cudaErrorNotReady) comm.check();   // a peer that failed: throws
//
// Several ranks on one GPU: NCCL refuses that among processes of one host, so each is given a host of its own
// (NCCL_HOSTID) and they talk over sockets. It is the real path of every call, and slow: good for
// correctness, and results say so (shares_device()).
#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <memory>
#include <string>
#include <vector>

#include "model/comm/comm.h"

namespace isobar {

class NcclComm {
 public:
  /// The device of the calling thread must be set. `bootstrap` holds the same groups. Throws
  /// cuda::Failure, also when making a communicator takes longer than `timeout_s`.
  NcclComm(const Plan& plan, const Mpi& mpi, Comm& bootstrap, double timeout_s);
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  /// Enqueues the op on device operands, as Comm::post does on the host's.
  void launch(const Op& op, const void* in, Extent counts, void* out, DType t, cudaStream_t stream);
  /// Throws cuda::Failure if a communicator has failed since: NCCL tells so only when asked.
  void check();
  /// Ends all that is in flight, on this rank: after a failure or a hang, when nothing else may be called.
  void abort() noexcept;
  /// Whether any two ranks of the run compute on one GPU.
  bool shares_device() const { return shares_device_; }

  static std::string version();  // of the library that is found; throws where there is none

 private:
  void create(const Group& group, int32_t index, int rank, Comm& bootstrap, double timeout_s);
  const Plan& plan_;
  std::vector<ncclComm_t> comms_;  // by index into Plan::groups
  std::vector<int> rank_;
  bool shares_device_ = false;
};

/// Which ranks are on a GPU that another one uses, too, from each rank's host and the GPU's PCI address
/// there.
bool any_two_alike(const Mpi& mpi, const std::string& device);

}  // namespace isobar
