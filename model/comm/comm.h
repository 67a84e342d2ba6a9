// One rank's communicators over MPI, for CPUs. Collectives, sends and receives are posted in their lane's
// order and complete in the background.
//
//   Mpi mpi;                                  // initialises MPI only under mpiexec or srun
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

namespace isobar::comm {

/// Ranks of a host, rank `mine` included, that may run on one of its cores; `ranks`: cores of each.
int sharing_cores(const std::vector<cpu_set_t>& ranks, size_t mine);
/// The index of rank `mine` among them; -1: they share only some cores.
int order_on_cores(const std::vector<cpu_set_t>& ranks, size_t mine);

class Mpi {  // the process's MPI session; a process without a launcher is a world of one, without MPI
 public:
  Mpi();
  ~Mpi();
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;
  int rank() const { return rank_; }
  int size() const { return size_; }
  int ranks_on_host() const { return on_host_; }
  int rank_on_host() const { return rank_on_host_; }
  /// Ranks of this host that may run on one of this rank's cores, itself included.
  int ranks_on_cores() const { return on_cores_; }
  const std::vector<int>& cpus() const { return cpus_; }  // that this rank might run on when it started
  int rank_on_cores() const { return rank_on_cores_; }    // among those; -1: they share only some cores
  /// By mpiexec, srun, PALS or Flux. Throws ConfigError if MPI cannot join the launched processes
  /// (launcher.h); the constructor also does if MPI's world differs from the launcher's.
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
  const std::vector<int> cpus_;
};

struct Requests {  // one op's requests; it is complete when all are
  std::vector<MPI_Request> all;
  std::vector<MPI_Datatype> types;         // freed on completion
  std::vector<int> counts, displacements;  // arrays that MPI may still read
  MPI_Request* next() { return &all.emplace_back(MPI_REQUEST_NULL); }
};

struct Extent {                      // elements of an op's operands, 0 if absent
  int64_t in = 0;                    // reads[0]
  int64_t out = 0;                   // writes[0]
  const int32_t* offsets = nullptr;  // all_to_all's, in host memory
};

struct CopyRun {  // of rows
  int64_t first = 0, count = 0;
};
/// Rows of an all_to_all by offsets: for each rank of the group, one run for each expert in which this rank
/// and that one meet.
struct CopyRuns {
  std::vector<std::vector<CopyRun>> tokens;   // of this rank's copies, for that rank's experts
  std::vector<std::vector<CopyRun>> experts;  // of this rank's experts' rows, that rank's copies
};
/// `offsets` [size, experts + 1]: see op_kind.h. Throws std::runtime_error if a rank's are not ascending.
CopyRuns copy_runs(const int32_t* offsets, int64_t experts, int rank, int size);
/// The experts of all ranks, by the view of offsets.
int64_t experts_of(const plan::Op& all_to_all, int size);

/// The order in which a rank creates its groups' communicators. All ranks use one order, so the first group
/// still to be created finds its members waiting for nothing else.
std::vector<size_t> creation_order(const std::vector<plan::Group>& groups);

class Comm {
 public:
  /// Collective over the members of each group; `world` holds the run's ranks, by which groups count. Every
  /// group gets its own communicator, so that lanes over the same ranks cannot receive each other's messages.
  explicit Comm(const std::vector<plan::Group>& groups, MPI_Comm world = MPI_COMM_WORLD);
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  /// Starts the op on `in` and `out` (null if absent), which must live until it completes. all_reduce and
  /// broadcast work in `out`, which `in` must equal; all_gather and reduce_scatter work in place if the part
  /// is at this rank's position in the whole. Sums of 16-bit floats are rounded at every hop.
  Requests post(const plan::Op& op, const void* in, Extent counts, void* out, DType t);
  bool test(Requests& requests);

 private:
  std::vector<MPI_Comm> comms_;  // by index into Plan::groups
  std::vector<int> rank_, size_;
  MPI_Op sum_bf16_ = MPI_OP_NULL, sum_f16_ = MPI_OP_NULL;
  std::mutex mutex_;  // a serial run posts from two threads; keeps a group's calls in order
};

}  // namespace isobar::comm
