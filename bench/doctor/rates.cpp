#include "bench/doctor/rates.h"

#include <dnnl.hpp>

#include <mpi.h>

#include <cstring>
#include <vector>

namespace isobar::doctor {

double matrix_rate() {
  constexpr int64_t n = 1024;
  std::vector<float> a(n * n, 0.5f), b(n * n, 0.25f), c(n * n);
  const double s = best_seconds(
      6, [&] { dnnl_sgemm('N', 'N', n, n, n, 1.0f, a.data(), n, b.data(), n, 0.0f, c.data(), n); });
  return 2.0 * n * n * n / s;
}

double copy_rate() {
  const int64_t bytes = int64_t{128} << 20, piece = int64_t{1} << 20;
  std::vector<char> from(static_cast<size_t>(bytes), 1), to(static_cast<size_t>(bytes), 2);
  return 2.0 * static_cast<double>(bytes) / best_seconds(4, [&] {
#pragma omp parallel for schedule(static)
           for (int64_t at = 0; at < bytes; at += piece) std::memcpy(to.data() + at, from.data() + at, piece);
         });
}

double link_rate(int partner) {
  constexpr int kBytes = 8 << 20;
  std::vector<char> out(kBytes, 1), in(kBytes);
  return kBytes / best_seconds(5, [&] {
           MPI_Sendrecv(out.data(), kBytes, MPI_BYTE, partner, 0, in.data(), kBytes, MPI_BYTE, partner, 0,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE);
         });
}

double link_latency(int partner) {
  constexpr int kRounds = 200;
  double out = 1, in = 0;
  // Messages go both ways at once and end with the later one: this is the time of one way.
  return best_seconds(5,
                      [&] {
                        for (int i = 0; i < kRounds; ++i)
                          MPI_Sendrecv(&out, 1, MPI_DOUBLE, partner, 1, &in, 1, MPI_DOUBLE, partner, 1,
                                       MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                      }) /
         kRounds;
}

}  // namespace isobar::doctor
