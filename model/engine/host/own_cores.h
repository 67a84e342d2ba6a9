// Binds a rank's threads to cores of its host.
//
//   OwnCores own(mpi, threads);        // binds until it is destroyed
//   own.cpus()                         // {2, 3}: of thread 0, 1; empty: they are not bound
//
// Ranks that a launcher bound to different cores keep their binding; ranks that share cores divide them in
// rank order. Threads are not bound if they outnumber the cores, if a cgroup quota allows fewer, or if
// OMP_PROC_BIND, OMP_PLACES or GOMP_CPU_AFFINITY is set.
#pragma once
#include <vector>

#include "model/comm/comm.h"

namespace isobar::engine {

/// Cores (the CPUs of each) of the n-th of `ranks` ranks that share `cores`; empty if there are fewer than
/// `threads` a rank.
std::vector<std::vector<int>> part_of_cores(const std::vector<std::vector<int>>& cores, int rank, int ranks,
                                            int threads);

class OwnCores {
 public:
  OwnCores(const comm::Mpi& mpi, int threads);
  ~OwnCores();
  OwnCores(const OwnCores&) = delete;
  OwnCores& operator=(const OwnCores&) = delete;
  const std::vector<int>& cpus() const { return cpus_; }

 private:
  std::vector<int> cpus_, before_;
};

}  // namespace isobar::engine
