#include "model/base/system/cpus.h"

#include <omp.h>
#include <sched.h>

#include <set>

namespace isobar {

std::vector<int> process_cpus() {
  std::set<int> all;
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> of_place(static_cast<size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, of_place.data());
    all.insert(of_place.begin(), of_place.end());
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int c = 0; c < CPU_SETSIZE; ++c)
      if (CPU_ISSET(c, &set)) all.insert(c);
  return {all.begin(), all.end()};
}

}  // namespace isobar
