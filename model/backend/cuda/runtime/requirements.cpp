#include "model/backend/cuda/runtime/requirements.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <stdexcept>

#include "model/backend/cuda/runtime/library.h"
#include "model/base/error.h"

namespace isobar::cuda {
namespace {

constexpr int kToolkit = CUDART_VERSION / 1000;  // major version that libraries and driver must support

struct Version {
  int major = 0, minor = 0, patch = 0;
  std::string text() const {
    return std::to_string(major) + "." + std::to_string(minor) + (patch ? "." + std::to_string(patch) : "");
  }
  bool before(int other_major, int other_minor) const {
    return major != other_major ? major < other_major : minor < other_minor;
  }
};

Version from(size_t v, size_t major, size_t minor) {  // 91900 with 10000 and 100 is 9.19.0
  return {static_cast<int>(v / major), static_cast<int>(v % major / minor), static_cast<int>(v % minor)};
}

struct Wanted {
  const char *file, *use;
  int least_major, least_minor;
  std::function<Version(const Library&)> version;
  std::function<std::string(const Library&)> misfit = [](const Library&) { return std::string(); };
};

// cuDNN 9.7 is the first with attention for capability 10.0; NCCL 2.18 the first whose calls keep their order
// in graphs.
const std::vector<Wanted>& wanted() {
  static const std::vector<Wanted> all = {
      {"libcublasLt.so.13", "matrix products", kToolkit, 0,
       [](const Library& l) { return from(l.function<size_t (*)()>("cublasLtGetVersion")(), 10000, 100); }},
      {"libcudnn.so.9", "fused attention", 9, 7,
       [](const Library& l) { return from(l.function<size_t (*)()>("cudnnGetVersion")(), 10000, 100); },
       [](const Library& l) {
         const size_t made_for = l.function<size_t (*)()>("cudnnGetCudartVersion")() / 1000;
         return made_for == kToolkit ? std::string()
                                     : "is for CUDA " + std::to_string(made_for) + ", and this program for " +
                                           std::to_string(kToolkit);
       }},
      {"libnvrtc.so.13", "cuDNN's kernels, which it compiles", kToolkit, 0,
       [](const Library& l) {
         Version v;
         l.function<int (*)(int*, int*)>("nvrtcVersion")(&v.major, &v.minor);
         return v;
       }},
      {"libnccl.so.2", "several ranks", 2, 18,
       [](const Library& l) {
         int v = 0;
         l.function<int (*)(int*)>("ncclGetVersion")(&v);
         return from(static_cast<size_t>(v), 10000, 100);
       }},
      {"libcupti.so.13", "traces by the device; without it ops are timed by events", kToolkit, 0,
       [](const Library& l) {
         uint32_t v = 0;
         l.function<int (*)(uint32_t*)>("cuptiGetVersion")(&v);
         return from(v, 10000, 100);
       }}};
  return all;
}

}  // namespace

std::vector<LibraryFound> find_libraries() {
  std::vector<LibraryFound> found;
  for (const Wanted& w : wanted()) {
    LibraryFound f{w.file, w.use, "", ""};
    try {
      const Library library(w.file);
      const Version v = w.version(library);
      f.version = v.text();
      f.problem = w.misfit(library);
      if (v.before(w.least_major, w.least_minor))
        f.problem = "is version " + f.version + ", and " + std::to_string(w.least_major) + "." +
                    std::to_string(w.least_minor) + " is the least";
    } catch (const std::runtime_error& e) {
      f.problem = e.what();
    }
    found.push_back(std::move(f));
  }
  return found;
}

void require_libraries(const std::string& file, int ranks) {
  std::string problems;
  const auto blame = [&](const std::string& what) { problems += (problems.empty() ? "" : "; ") + what; };
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver / 1000 < kToolkit)
    blame("the NVIDIA driver knows CUDA " + std::to_string(driver / 1000) + "." +
          std::to_string(driver % 1000 / 10) + ", and this program needs " + std::to_string(kToolkit) + ".0");
  bool cudnn = false;
  for (const LibraryFound& l : find_libraries()) {
    const bool here = !l.version.empty();
    if (l.file.starts_with("libcudnn")) cudnn = here;
    const bool needed = l.file.starts_with("libcublasLt") || (l.file.starts_with("libnvrtc") && cudnn) ||
                        (l.file.starts_with("libnccl") && ranks > 1);
    if (!l.ok() && (needed || here)) blame(here ? l.file + " " + l.problem : l.problem);
  }
  if (!problems.empty())
    throw ConfigError(file, "run.device", problems,
                      "bring libraries and driver of CUDA " + std::to_string(kToolkit) +
                          " (isobar doctor lists them), or set run.device: cpu");
}

void prepare_environment(int ranks) {
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  if (ranks > 1) ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

}  // namespace isobar::cuda
