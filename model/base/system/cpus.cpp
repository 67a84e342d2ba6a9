#include "model/base/system/cpus.h"

#include <omp.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

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

std::optional<double> busy_seconds(const std::vector<int>& cpus, const std::filesystem::path& stat) {
  const auto ticks_per_s = static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::map<std::string, double> busy;  // by the line's name: cpu0
  std::ifstream in(stat);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    // In ticks; time of guests is within that of users.
    double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
    if (words >> name >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal)
      busy[name] = (user + nice + system + irq + softirq + steal) / ticks_per_s;
  }
  double sum = 0;
  for (const int cpu : cpus) {
    const auto known = busy.find("cpu" + std::to_string(cpu));
    if (known == busy.end()) return std::nullopt;
    sum += known->second;
  }
  return cpus.empty() ? std::nullopt : std::optional(sum);
}

double own_cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace isobar
