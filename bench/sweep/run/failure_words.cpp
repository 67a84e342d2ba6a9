#include "bench/sweep/run/failure_words.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace isobar::sweep {
namespace {

constexpr size_t kLongestQuote = 500;  // bytes

struct FailureWords {
  records::RunClass run_class;
  const char* title;
  std::vector<const char*> words;
};

// In the order in which they count. Connections that end are mostly what another rank's failure causes.
const std::vector<FailureWords>& failures() {
  static const std::vector<FailureWords> kAll = {
      {records::RunClass::oom_device,
       "out of device memory",
       {"CUDA out of memory", "torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError", "HIP out of memory",
        "XPU out of memory", "CUDA error: out of memory", "Cuda failure 'out of memory'",
        "Cuda failure 2 'out of memory'", "RESOURCE_EXHAUSTED: Out of memory",
        "RESOURCE_EXHAUSTED: Failed to allocate", "OOM when allocating tensor",
        "Ran out of memory in memory space hbm", "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY",
        "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "hipErrorOutOfMemory"}},
      {records::RunClass::oom_host,
       "out of memory",
       {"std::bad_alloc", "Cannot allocate memory", "DefaultCPUAllocator: can't allocate memory",
        "DefaultCPUAllocator: not enough memory", "MemoryError", "Unable to allocate",
        "out of shared memory"}},
      {records::RunClass::oom_host,
       "killed, as it is when memory runs out",
       {"oom-kill", "oom_kill event", ": Out Of Memory", "OOM Killed", "is killed by signal: Killed",
        "Signal 9 (SIGKILL) received by PID", " Killed ", "\nKilled\n"}},
      {records::RunClass::numeric,
       "the loss is not a number",
       {"FloatingPointError", "Loss is nan", "loss is nan", "Loss is NaN", "loss is NaN", "NaN loss",
        "loss is nan or inf", "returned nan values in its", "found NaN in local", "Unexpected result nan",
        ": Invalid loss, terminating training", "Current loss scale already at minimum",
        "stopping training: nan"}},
      {records::RunClass::hang,
       "a collective operation waited too long",
       {"collective operation timeout", "Timed out waiting", "operations have failed or timed out",
        "wait timeout after"}},
      {records::RunClass::bad_config,
       "refused its arguments",
       {"error: unrecognized arguments:", "error: the following arguments are required:", "error: argument ",
        "hydra.errors.", "omegaconf.errors.", "Could not override '", "is not in struct",
        "Error: No such option", "Error: Invalid value for"}},
      {records::RunClass::launch_fail,
       "has no driver or GPU",
       {"Found no NVIDIA driver", "CUDA driver version is insufficient", "No CUDA GPUs are available",
        "no CUDA-capable device is detected", "Torch not compiled with CUDA enabled"}},
      {records::RunClass::launch_fail,
       "lacks a module",
       {"ModuleNotFoundError: No module named", "ImportError: ", "cannot open shared object file"}},
      {records::RunClass::crash,
       "a connection between ranks was lost",
       {"Connection closed by peer", "Connection reset by peer", "ncclRemoteError", "Broken pipe"}}};
  return kAll;
}

std::string line_at(const std::string& text, size_t at) {
  const size_t last = text.find_last_of("\n\r", at);
  const size_t begin = text[at] == '\n' ? at + 1 : last == std::string::npos ? 0 : last + 1;
  const size_t end = std::min(text.find_first_of("\n\r", begin), text.size());
  return text.substr(begin, std::min(end - begin, kLongestQuote));
}

std::optional<size_t> place_of(const FailureWords& f, const std::string& text) {
  for (const char* words : f.words)
    if (const size_t at = text.find(words); at != std::string::npos) return at;
  return std::nullopt;
}

}  // namespace

std::optional<SaidFailure> failure_said_in(const std::string& text, bool trained) {
  for (const FailureWords& f : failures()) {
    const bool of_start =
        f.run_class == records::RunClass::launch_fail || f.run_class == records::RunClass::bad_config;
    if (trained && of_start) continue;
    if (const auto at = place_of(f, text)) return SaidFailure{f.run_class, f.title, line_at(text, *at)};
  }
  return std::nullopt;
}

bool says_failure(records::RunClass run_class, const std::string& text) {
  const auto names_it = [&](const FailureWords& f) { return f.run_class == run_class && place_of(f, text); };
  return std::any_of(failures().begin(), failures().end(), names_it);
}

}  // namespace isobar::sweep
