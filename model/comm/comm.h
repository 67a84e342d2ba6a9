// One rank's communicators. Collectives, sends and receives are posted in the order of their lane and
// complete in the background; on CPUs this is MPI.
//
//   Mpi mpi;                                  // initialises MPI only when started by mpiexec or srun
//   Comm comm(plan.groups);
//   Requests r = comm.post(op, in, {in_count, out_count}, out, DType::f32);   while (!comm.test(r)) …;
#pragma once
#include <sched.h>

#include <mpi.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "model/plan/plan.h"

namespace isobar {

/// How many of a host's ranks, by the cores that each may use, share one with rank `mine`, itself too.
int sharing_cores(const std::vector<cpu_set_t>& ranks, size_t mine);
/// The how manieth of them it is; -1: they share some cores only.
int order_on_cores(const std::vector<cpu_set_t>& ranks, size_t mine);

class Mpi {  // the process's MPI session; a process that was not started by a launcher is a world of one,
             // without MPI
 public:
  Mpi();
  ~Mpi();
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;
  int rank() const { return rank_; }
  int size() const { return size_; }
  int ranks_on_host() const { return on_host_; }
  int rank_on_host() const { return rank_on_host_; }
  /// Of those the ones that may run on a core of this rank's, itself too: fewer where a launcher binds ranks.
  int ranks_on_cores() const { return on_cores_; }
  int rank_on_cores() const { return rank_on_cores_; }  // among those; -1: they share some cores only
  /// CPUs by number that this host's ranks may run on, together
  const std::vector<int>& host_cpus() const { return host_cpus_; }
  /// By mpiexec, srun, PALS or Flux. Throws ConfigError where it started processes that MPI cannot join
  /// (launcher.h); so does the constructor where MPI's world is another than the launcher's.
  static bool started_by_launcher();
  static std::string version();
  void barrier() const;
  double max_of(double x) const;  // over all ranks
  std::vector<double> sum_of(std::vector<double> x) const;
  std::string from_first(std::string s) const;             // rank 0's string on every rank
  std::vector<std::string> to_first(std::string s) const;  // every rank's, on rank 0; empty elsewhere
  /// Ends the whole run at once, after the message has been printed.
  [[noreturn]] void abort(int code) const;

 private:
  int rank_ = 0, size_ = 1, on_host_ = 1, rank_on_host_ = 0, on_cores_ = 1, rank_on_cores_ = 0;
  bool active_ = false;
  std::vector<int> host_cpus_;
};

struct Requests {  // what one op has in flight; it is over when all of them are
  std::vector<MPI_Request> all;
  std::vector<int> counts, displacements;  // arrays that MPI may still read
  MPI_Request* next() { return &all.emplace_back(MPI_REQUEST_NULL); }
};

struct Extent {     // elements of an op's operands, 0 for one that it has not
  int64_t in = 0;   // reads[0]
  int64_t out = 0;  // writes[0]
};

/// In which order a rank makes its groups' communicators. Making one waits for its members; as all ranks go
/// by one order, the first group that is still to be made finds its members waiting for it, and for nothing
/// else.
std::vector<size_t> creation_order(const std::vector<Group>& groups);

class Comm {
 public:
  /// Collective over the members of each group, whatever other groups each of them has. `world` holds the
  /// run's ranks, which the groups count in. Every group gets a communicator of its own, so that lanes whose
  /// groups have the same ranks cannot take each other's messages.
  explicit Comm(const std::vector<Group>& groups, MPI_Comm world = MPI_COMM_WORLD);
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  /// Starts the op on operands `in` and `out` (null where it has none), which must stay until it is over.
  /// all_reduce and broadcast work in `out`, where `in` lies too. all_gather and reduce_scatter work in place
  /// if the part lies at this rank's position in the whole. Sums of 16-bit floats are rounded at every hop.
  Requests post(const Op& op, const void* in, Extent counts, void* out, DType t);
  bool test(Requests& requests);

 private:
  void all_gather(const Op& op, const void* in, Extent counts, void* out, DType t, Requests& requests);
  void all_to_all(const Op& op, const void* in, Extent counts, void* out, DType t, Requests& requests);
  void exchange(const Op& op, const void* in, Extent counts, void* out, DType t, Requests& requests);
  void reduce_scatter(const Op& op, const void* in, Extent counts, void* out, DType t, Requests& requests);
  MPI_Op sum_of(DType t) const;

  std::vector<MPI_Comm> comms_;  // by index into Plan::groups
  std::vector<int> rank_, size_;
  MPI_Op sum_bf16_ = MPI_OP_NULL, sum_f16_ = MPI_OP_NULL;
  std::mutex mutex_;  // a serial run posts from two threads, and a group's calls keep one order
};

}  // namespace isobar
