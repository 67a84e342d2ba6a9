// Splits loops over OpenMP threads, always in the same way, with denormals flushed; and scratch that grows
// and is never freed.
//
//   parallel(cols * rows, [&](int t, int threads) {
//     const Range r = share(rows, t, threads);
//     work(r.begin, r.end);
//   });
#pragma once
#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "model/backend/cpu/thread_places.h"
#include "model/base/system/denormals.h"
#include "model/base/system/team.h"

namespace isobar::cpu {

struct Range {
  int64_t begin, end;
};

// The t-th of `threads` consecutive shares of n, cut at multiples of `grain`
inline Range share(int64_t n, int t, int threads, int64_t grain = 1) {
  const int64_t grains = (n + grain - 1) / grain;
  return {std::min(n, grains * t / threads * grain), std::min(n, grains * (t + 1) / threads * grain)};
}

// Threads worth waking for `elements` of work
inline int threads_for(int64_t elements) {
  return static_cast<int>(threads_worth(elements, omp_get_max_threads()));
}

// body(thread, threads) on `threads` threads, or as many as OpenMP gives: every kernel runs inside it
template <class Body>
void on_threads(int threads, const Body& body) {
  flush_denormals();
  if (threads == 1) {
    body(0, 1);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    flush_denormals();  // OpenMP threads may be older than their master's setting
    keep_place(omp_get_thread_num());
    body(omp_get_thread_num(), omp_get_num_threads());
  }
}

// on as many threads as the work is worth
template <class Body>
void parallel(int64_t elements, const Body& body) {
  on_threads(threads_for(elements), body);
}

// Call before a library runs its own OpenMP loops: it uses the same threads, and new ones inherit the
// setting.
void prepare_threads();

inline void barrier() {
#pragma omp barrier
}

// Aligned scratch of the calling thread, at least `floats` long, undefined, valid until its next call.
float* scratch(int64_t floats);

// out[j] (+)= parts[0][j] + parts[1][j] + … in this order; parts are `stride` apart
void sum_parts(const float* parts, int64_t stride, int count, Range columns, float* out, bool accumulate);

}  // namespace isobar::cpu
