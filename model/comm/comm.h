// One rank's communicators. Collectives are posted in plan order and complete in the background; on CPUs this
// is MPI, with every call made by the thread that owns the lane (MPI_THREAD_MULTIPLE is asked for).
//
//   Mpi mpi;                                  // initialises MPI only when started by mpiexec or srun
//   Comm comm(plan.groups);
//   auto request = comm.post(op, data, count);   while (!comm.test(request)) …;
#pragma once
#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "model/plan/plan.h"

namespace isobar {

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
  static bool started_by_launcher();  // by mpiexec, srun or PALS
  static std::string version();
  void barrier() const;
  double max_of(double x) const;  // over all ranks
  std::vector<double> sum_of(std::vector<double> x) const;
  std::string from_first(std::string s) const;  // rank 0's string on every rank
  /// Ends the whole run at once, after the message has been printed.
  [[noreturn]] void abort(int code) const;

 private:
  int rank_ = 0, size_ = 1, on_host_ = 1;
  bool active_ = false;
};

class Comm {
 public:
  explicit Comm(const std::vector<Group>& groups);  // collective over the members of each group
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  MPI_Request post(const Op& op, void* data, int64_t count, DType t);  // in place
  static bool test(MPI_Request& request);
  static void wait(MPI_Request& request);
  int64_t bytes_posted() const { return bytes_; }  // payload, for checks against the plan

 private:
  std::vector<MPI_Comm> comms_;
  int64_t bytes_ = 0;
};

}  // namespace isobar
