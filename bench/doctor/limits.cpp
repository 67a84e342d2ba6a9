// Resource limits of the process.
#include <sys/resource.h>

#include <filesystem>

#include "bench/doctor/check.h"

namespace isobar::doctor {
namespace {

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

}  // namespace

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

}  // namespace isobar::doctor
