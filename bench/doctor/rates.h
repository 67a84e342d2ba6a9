// Quick measurements of a node's rates: products, copies, messages. `isobar doctor` shows them for this host,
// `isobar preflight` compares the nodes of an allocation by them.
//
//   std::printf("%.0f GFLOP/s\n", matrix_rate() / 1e9);
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>

namespace isobar::doctor {

/// Seconds of the best of `times` runs: the first one warms up, and others may be disturbed.
template <typename Work>
double best_seconds(int times, Work work) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30;
  for (int i = 0; i < times; ++i) {
    const auto begin = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

/// FLOP/s of an fp32 product of 1024 x 1024 matrices by oneDNN, on as many threads as OpenMP has.
double matrix_rate();
/// Bytes/s read and written by copies of 128 MiB on all threads at once, as they share the memory.
double copy_rate();
/// Bytes/s in each direction while this rank and `partner` exchange 8 MiB (MPI_COMM_WORLD).
double link_rate(int partner);
/// Seconds one way of an 8-byte message to `partner` and back; to be called by both ranks.
double link_latency(int partner);

}  // namespace isobar::doctor
