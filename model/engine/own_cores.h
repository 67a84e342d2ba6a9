// Which of a host's cores a rank's threads are bound to.
//
//   OwnCores own(mpi, threads);        // binds until it is destroyed
//   own.cpus()                         // {2, 3}: of thread 0, 1; empty: they are not bound
//
// Ranks that a launcher bound apart keep to what they got; of ranks that share cores each takes its part, in
// their order on the host. Threads are not bound where they outnumber the cores, where a control group's
// quota allows fewer than there are, or where OMP_PROC_BIND, OMP_PLACES or GOMP_CPU_AFFINITY say what the
// user wants.
#pragma once
#include <vector>

#include "model/comm/comm.h"

namespace isobar {

/// Of cores (the CPUs of each) that `ranks` ranks share, those of the n-th rank; none where `threads` of each
/// do not find a core each.
std::vector<std::vector<int>> part_of_cores(const std::vector<std::vector<int>>& cores, int rank, int ranks,
                                            int threads);

class OwnCores {
 public:
  OwnCores(const Mpi& mpi, int threads);
  ~OwnCores();
  OwnCores(const OwnCores&) = delete;
  OwnCores& operator=(const OwnCores&) = delete;
  const std::vector<int>& cpus() const { return cpus_; }

 private:
  std::vector<int> cpus_, before_;
};

}  // namespace isobar
