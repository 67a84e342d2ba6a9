// GPUs, and the libraries that kernels on them call.
#include <filesystem>

#include "bench/doctor/check.h"
#ifdef ISOBAR_WITH_CUDA
#include "model/backend/cuda/runtime/device.h"
#include "model/backend/cuda/runtime/requirements.h"
#endif

namespace isobar::doctor {

#ifdef ISOBAR_WITH_CUDA

std::vector<Check> examine_gpus() {
  const cuda::Devices found = cuda::find_devices();
  std::string names;
  for (const cuda::Device& d : found.all)
    names += (names.empty() ? "" : ", ") + d.name + " (" + std::to_string(d.memory >> 30) + " GiB)";
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

}  // namespace isobar::doctor
