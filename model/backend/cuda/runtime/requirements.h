// Libraries that a GPU run needs at run time, in versions that fit each other and the driver. Checked once at
// the start, so that a run does not fail in its first product, or after an hour in its first trace.
//
//   prepare_environment(ranks);              // before the first CUDA call
//   require_libraries(spec.file, ranks);     // one ConfigError with all problems
//   for (const LibraryFound& l : find_libraries()) …;   // for `isobar doctor`
#pragma once
#include <string>
#include <vector>

namespace isobar::cuda {

struct LibraryFound {
  std::string file, use;  // "libcudnn.so.9", "fused attention"
  std::string version;    // "9.19.0"; empty if missing
  std::string problem;    // empty: usable
  bool ok() const { return problem.empty(); }
};

std::vector<LibraryFound> find_libraries();

/// Throws ConfigError for `file`, key run.device, with every problem of a run of `ranks` ranks: cuBLASLt,
/// with cuDNN also NVRTC (which compiles its kernels), with several ranks NCCL. cuDNN and CUPTI may be
/// missing, with reported fallbacks, but must fit if present.
void require_libraries(const std::string& file, int ranks);

/// Sets what CUDA reads from the environment at its start, unless the user has.
///
/// CUDA_DEVICE_MAX_CONNECTIONS=32: a hardware queue for each lane's stream; with the default of 8 a transfer
/// may queue behind an unrelated product. CUDA_MODULE_LOADING=EAGER for several ranks: lazy loading may wait
/// for running kernels, and deadlocks if those are transfers that wait for this rank (CUDA C Programming
/// Guide, Lazy Loading, "Concurrent Execution").
void prepare_environment(int ranks);

}  // namespace isobar::cuda
