#include <cstdio>

#include "tests/comm/ranks.h"
#ifdef ISOBAR_TEST_NCCL
#include "model/backend/cuda/runtime/device.h"
#endif

namespace isobar::comm {
int rank, world;
}

#ifdef __SANITIZE_ADDRESS__
// MPI's library has leaks of its own.
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0";
}
#endif

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &isobar::comm::rank);
  MPI_Comm_size(MPI_COMM_WORLD, &isobar::comm::world);
  if (isobar::comm::world < 2) {
    std::fprintf(stderr, "%s tests what several ranks do together: start it with mpiexec -n 3\n", argv[0]);
    return 1;
  }
#ifdef ISOBAR_TEST_NCCL
  if (const auto devices = isobar::cuda::find_devices(); devices.all.empty()) {
    if (isobar::comm::rank == 0) std::printf("SKIPPED: no device: %s\n", devices.why_none.c_str());
    MPI_Finalize();
    return 0;  // mpiexec fails on any other code; ctest and gpu.sh look for the word
  }
  isobar::cuda::use_device("", isobar::comm::rank);
#endif
  const int failed = RUN_ALL_TESTS();
  MPI_Finalize();
  return failed;
}
