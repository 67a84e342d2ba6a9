#include "model/engine/host/own_cores.h"

#include <cstdlib>

#include "model/backend/cpu/thread_places.h"
#include "model/base/system/cpus.h"
#include "model/engine/host/cpu_places.h"

namespace isobar::engine {
namespace {

bool chosen_by_user() {
  for (const char* name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"})
    if (std::getenv(name)) return true;
  return false;
}

}  // namespace

std::vector<std::vector<int>> part_of_cores(const std::vector<std::vector<int>>& cores, int rank, int ranks,
                                            int threads) {
  const size_t each = cores.size() / static_cast<size_t>(ranks), first = each * static_cast<size_t>(rank);
  if (each < static_cast<size_t>(threads)) return {};
  return {cores.begin() + static_cast<std::ptrdiff_t>(first),
          cores.begin() + static_cast<std::ptrdiff_t>(first + each)};
}

OwnCores::OwnCores(const comm::Mpi& mpi, int threads) {
  const CpuPlaces places = cpu_places();
  if (chosen_by_user() || places.usable() < places.cores || mpi.rank_on_cores() < 0) return;
  before_ = process_cpus();
  std::vector<int> around;
  for (const std::vector<int>& core :
       part_of_cores(cpus_of_cores(before_), mpi.rank_on_cores(), mpi.ranks_on_cores(), threads)) {
    around.insert(around.end(), core.begin(), core.end());
    if (cpus_.size() < static_cast<size_t>(threads)) cpus_.push_back(core.front());
  }
  if (!cpus_.empty()) cpu::place_threads(cpus_, around);
}

OwnCores::~OwnCores() {
  if (!cpus_.empty()) cpu::place_threads({}, before_);
}

}  // namespace isobar::engine
