#include "model/engine/host/host.h"

#include <dnnl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "isobar_version.h"
#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/isa/kernels.h"
#include "model/base/system/cpus.h"
#include "model/comm/comm.h"
#include "model/engine/host/cpu_places.h"

extern char** environ;

namespace isobar::engine {
namespace {

int64_t status_kb(const char* key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return std::stoll(line.substr(line.find(':') + 1));
  return 0;
}

}  // namespace

int64_t resident_bytes() {
  return status_kb("VmRSS:") * 1024;
}
int64_t peak_resident_bytes() {
  return status_kb("VmHWM:") * 1024;
}
int64_t file_resident_bytes() {
  return status_kb("RssFile:") * 1024;
}

int cores() {
  static const int usable = cpu_places().usable();
  return usable;
}

int cores_of(const comm::Mpi& mpi) {
  return cores() * mpi.ranks_on_host() / mpi.ranks_on_cores();
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  std::map<std::string, std::string> first;  // first value of each key
  for (std::string line; std::getline(in, line) && !line.empty();)
    if (const size_t colon = line.find(':'); colon + 2 <= line.size())
      first.emplace(line.substr(0, line.find_last_not_of("\t ", colon - 1) + 1), line.substr(colon + 2));
  if (!first.contains("model name")) return "unknown";
  // Virtual machines report one name, such as "AMD EPYC", for several generations.
  if (!first.contains("cpu family") || !first.contains("model")) return first["model name"];
  return first["model name"] + " (family " + first["cpu family"] + " model " + first["model"] + ")";
}

std::string host_name() {
  utsname u{};
  uname(&u);
  return u.nodename;
}

double cores_mhz() {
  const std::vector<int> own = process_cpus();
  std::ifstream in("/proc/cpuinfo");
  int core = -1, counted = 0;
  double sum = 0;
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    if (line.starts_with("processor")) core = std::stoi(line.substr(colon + 1));
    if (!line.starts_with("cpu MHz") || core < 0 || !std::binary_search(own.begin(), own.end(), core))
      continue;
    sum += std::stod(line.substr(colon + 1)), ++counted;
  }
  return counted > 0 ? sum / counted : 0;
}

std::string utc_now() {
  const std::time_t t = std::time(nullptr);
  std::tm tm{};
  gmtime_r(&t, &tm);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
  return text;
}

nlohmann::json provenance() {
  utsname u{};
  uname(&u);
  const dnnl_version_t* v = dnnl_version();
  std::ostringstream onednn;
  onednn << v->major << '.' << v->minor << '.' << v->patch;
  nlohmann::json env = nlohmann::json::object();
  for (char** e = environ; *e; ++e) {
    const std::string s = *e;
    for (const char* prefix : {"OMP_", "OMPI_MCA_", "ONEDNN_", "DNNL_", "SLURM_JOB_ID", "PBS_JOBID"})
      if (s.starts_with(prefix)) env[s.substr(0, s.find('='))] = s.substr(s.find('=') + 1);
  }
  return {{"commit", ISOBAR_COMMIT},
          {"dirty", ISOBAR_DIRTY != 0},
          {"host", u.nodename},
          {"cpu", cpu_name()},
          {"cores", cores()},
          {"isa", static_cast<int>(dnnl_get_effective_cpu_isa())},
          {"kernels", cpu::name_of(cpu::current_isa())},
          {"bf16_mode", cpu::bf16_mode()},
          {"f16_mode", cpu::f16_mode()},
          {"tf32_mode", cpu::tf32_mode()},
          {"compiler", __VERSION__},
          {"build_type", ISOBAR_BUILD_TYPE},
          {"onednn", onednn.str()},
          {"mpi", comm::Mpi::version()},
          {"kernel", std::string(u.sysname) + " " + u.release},
          {"env", env}};
}

}  // namespace isobar::engine
