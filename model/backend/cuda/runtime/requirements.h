// What running on a GPU needs beside the GPU: the libraries that are opened at run time, each in a version
// that fits the others and the driver. Looked at once, at the start, so that a run does not fail in its first
// product, or after an hour in its first trace.
//
//   prepare_environment(ranks);              // before the first call of CUDA
//   require_libraries(spec.file, ranks);     // one ConfigError that names all that is missing
//   for (const LibraryFound& l : find_libraries()) …;   // the same for `isobar doctor`
#pragma once
#include <string>
#include <vector>

namespace isobar::cuda {

struct LibraryFound {
  std::string file, use;  // "libcudnn.so.9", "fused attention"
  std::string version;    // "9.19.0"; empty where it is missing
  std::string problem;    // empty: can be used
  bool ok() const { return problem.empty(); }
};

std::vector<LibraryFound> find_libraries();

/// Throws ConfigError for `file`, key run.device, with every problem of what a run of so many ranks needs:
/// cuBLASLt, with cuDNN also NVRTC (which compiles its kernels), with several ranks NCCL. cuDNN and CUPTI may
/// be missing: then attention and traces take another way and say so; but where they are, they must fit.
void require_libraries(const std::string& file, int ranks);

/// What CUDA reads from the environment when it begins; what the user has set stays.
///
/// CUDA_DEVICE_MAX_CONNECTIONS=32: a hardware queue for each lane's stream. With 8, the default, streams
/// share queues, and a transfer waits behind a product that it does not depend on. CUDA_MODULE_LOADING=EAGER
/// for several ranks: a kernel that is loaded when it is first launched may have to wait for what runs, and
/// if that is a transfer that waits for this rank, for ever (CUDA C Programming Guide, Lazy Loading,
/// "Concurrent Execution").
void prepare_environment(int ranks);

}  // namespace isobar::cuda
