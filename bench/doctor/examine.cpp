#include <sys/resource.h>

#include <filesystem>

#include "bench/cluster/command.h"
#include "bench/doctor/check.h"
#include "model/base/names/search_paths.h"
#include "model/base/system/program.h"
#include "model/base/text/joined.h"
#include "model/base/text/printed.h"

#ifdef ISOBAR_WITH_CUDA
#include "model/backend/cuda/runtime/device.h"
#include "model/backend/cuda/runtime/requirements.h"
#endif

namespace isobar::doctor {
namespace {

// Resource limits of the process.
std::string text_of(rlim_t bytes) {
  if (bytes == RLIM_INFINITY) return "unlimited";
  if (bytes < rlim_t{1} << 20) return std::to_string(bytes >> 10) + " kB";
  return std::to_string(bytes >> 20) + " MB";
}

rlim_t limit_of(decltype(RLIMIT_NOFILE) what) {
  rlimit l{};
  return ::getrlimit(what, &l) == 0 ? l.rlim_cur : RLIM_INFINITY;
}

bool anything_in(const char* folder) {
  std::error_code none;
  return std::filesystem::directory_iterator(folder, none) != std::filesystem::directory_iterator();
}

std::vector<Check> examine_limits() {
  std::vector<Check> out;
  // RDMA and copies to GPUs pin their buffers; without either a few pages are enough.
  const bool pins = anything_in("/dev/infiniband") || std::filesystem::exists("/dev/nvidia0");
  const rlim_t locked = limit_of(RLIMIT_MEMLOCK), wanted = rlim_t{1} << (pins ? 30 : 20);
  out.push_back({"locked memory", text_of(locked), locked < wanted ? Health::look : Health::ok,
                 std::string(pins ? "the network and GPUs here pin the buffers they send"
                                  : "MPI pins the buffers it sends") +
                     ": ulimit -l unlimited (on a cluster, limits.conf of the nodes)"});
  const rlim_t files = limit_of(RLIMIT_NOFILE);
  out.push_back({"open files", files == RLIM_INFINITY ? "unlimited" : std::to_string(files),
                 files < 256    ? Health::failed
                 : files < 1024 ? Health::look
                                : Health::ok,
                 "each rank holds a connection to every other and the data's files: ulimit -n 4096",
                 files < 256});
  const rlim_t stack = limit_of(RLIMIT_STACK);
  out.push_back(
      {"stack", text_of(stack), stack < rlim_t{1} << 20 ? Health::look : Health::ok, "ulimit -s 8192"});
  return out;
}

// Search paths of programs and libraries must not include the working directory.
Check examine_search_paths() {
  const std::string names = joined(relative_search_paths());
  if (names.empty()) return {"search paths", "absolute folders only"};
  return {"search paths", "the working directory is in " + names, Health::look,
          "take empty and relative parts out of it, as a colon at its end: programs and libraries that lie "
          "beside data would run; isobar starts others without these parts"};
}

// A scheduler that answers: its commands may be installed while its controller is down.
std::vector<Check> examine_scheduler() {
  struct Scheduler {
    const char *name, *submit;
    std::vector<std::string> ask;
  };
  for (const Scheduler& s : {Scheduler{"Slurm", "sbatch", {"sinfo", "--noheader", "-o", "%P %D %a"}},
                             Scheduler{"PBS", "qsub", {"qstat", "-Q"}}}) {
    const std::string submit = program_in_path(s.submit);
    if (submit.empty()) continue;
    const cluster::Said said = cluster::say(s.ask, {.timeout_s = 15});
    if (said.code == 0)
      return {{"scheduler", std::string(s.name) + " answers: " + cluster::first_line(said.out)}};
    const std::string why = cluster::first_line(said.err.empty() ? said.out : said.err);
    return {{"scheduler",
             submit + " is there, and " + s.ask[0] + (said.code < 0 ? " does not answer" : " fails") +
                 (why.empty() ? "" : " (" + why + ")"),
             Health::look,
             "sweeps run on this machine; --launcher needs the controller: ask its administrator"}};
  }
  return {{"scheduler", "none", Health::absent, "not needed: sweeps run on this machine"}};
}

// GPUs, and the libraries that kernels on them call.
#ifdef ISOBAR_WITH_CUDA

std::vector<Check> examine_gpus() {
  const cuda::Devices found = cuda::find_devices();
  const std::string names = joined(found.all, ", ", [](const cuda::Device& d) {
    return d.name + " (" + std::to_string(d.memory >> 30) + " GiB)";
  });
  std::vector<Check> out = {{"GPU", names.empty() ? found.why_none : names,
                             found.all.empty() ? Health::absent : Health::ok,
                             "without one, runs compute on the CPU"}};
  for (const cuda::LibraryFound& l : cuda::find_libraries())
    out.push_back({l.file, l.ok() ? l.version : l.problem, l.ok() ? Health::ok : Health::absent,
                   "needed on a GPU for " + l.use});
  return out;
}

#else

std::vector<Check> examine_gpus() {
  const bool driver = std::filesystem::exists("/proc/driver/nvidia/version");
  return {{"NVIDIA driver", driver ? "present" : "none", driver ? Health::ok : Health::absent,
           "not needed: this build computes on the CPU"}};
}

#endif

Check examine_charts() {
  Check c{.part = "charts (vl-convert)",
          .health = Health::absent,
          .mend = "bench/setup.sh; without it reports have tables and data but no pictures"};
  const std::string python = drawing_python(&c.found).string();
  if (!c.found.empty()) {
    c.health = Health::look;
    return c;
  }
  const ProgramRun run = run_program({python, "-c", "import vl_convert; print(vl_convert.__version__)"});
  c.found = run.code == 0 ? run.out.substr(0, run.out.find('\n')) + ", of " + python
                          : (python.empty() ? "no python3 in PATH" : "not of " + python);
  if (run.code == 0) c.health = Health::ok;
  return c;
}

}  // namespace

// The number of threads that runs use here, and its limit.
Check examine_threads(const engine::CpuPlaces& p) {
  Check c{"threads", printed("%d hardware threads of %d cores in %d NUMA node%s", p.threads, p.cores, p.nodes,
                             p.nodes > 1 ? "s" : "")};
  if (p.quota) c.found += printed(", of which the control group allows %.3g", *p.quota);
  c.found += ": runs use " + std::to_string(p.usable());
  if (p.usable() < p.cores) {
    c.health = Health::look;
    c.mend = "a container or job with a larger limit (docker --cpus, cpu.max) would use more cores";
  } else if (p.nodes > 1) {
    c.health = Health::look;
    c.mend = "memory of another node is slower: compare one rank a node, bound to it (mpiexec -n " +
             std::to_string(p.nodes) + " --map-by numa --bind-to numa), with a single rank";
  }
  return c;
}

std::vector<Check> examine(const Examination& e) {
  std::vector<Check> out;
  const auto add = [&out](std::vector<Check> more) { out.insert(out.end(), more.begin(), more.end()); };
  add(examine_processor());
  add(examine_cores());
  add(examine_clocks());
  add(examine_limits());
  out.push_back(examine_search_paths());
  add(examine_ranks(e));
  add(examine_files(e));
  add(examine_scheduler());
  add({examine_charts()});
  add(examine_gpus());
  return out;
}

}  // namespace isobar::doctor
