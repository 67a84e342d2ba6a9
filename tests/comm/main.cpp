#include <cstdio>

#include "tests/comm/ranks.h"

namespace isobar {
int rank, world;
}

#ifdef __SANITIZE_ADDRESS__
// MPI's library never frees some of its own.
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0";
}
#endif

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &isobar::rank);
  MPI_Comm_size(MPI_COMM_WORLD, &isobar::world);
  if (isobar::world < 2) {
    std::fprintf(stderr, "%s tests what several ranks do together: start it with mpiexec -n 3\n", argv[0]);
    return 1;
  }
  const int failed = RUN_ALL_TESTS();
  MPI_Finalize();
  return failed;
}
