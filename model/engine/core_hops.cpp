#include "model/engine/core_hops.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace isobar {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTrips = 100, kTries = 20, kMostCpus = 16;
constexpr double kPlausible = 2000;  // ns: above, a core was busy throughout
constexpr auto kMost = std::chrono::milliseconds(50);
constexpr int kStop = -1;

bool bind_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

double nanoseconds(Clock::duration d) {
  return std::chrono::duration<double, std::nano>(d).count();
}

// One thread makes the count odd, the other even; kStop ends the echo.
struct alignas(128) Line {
  std::atomic<int> count = 0;
};

void echo(Line& line) {
  for (int next = 1;; next += 2) {
    int seen;
    while ((seen = line.count.load(std::memory_order_acquire)) != next)
      if (seen == kStop) return;
    line.count.store(next + 1, std::memory_order_release);
  }
}

// The shortest of the tries made while `more(tries, shortest)` is true
template <class More>
double call(Line& line, int trips, const More& more) {
  double least = 0;
  int next = 1;
  for (int i = 0; more(i, least); ++i) {
    const Clock::time_point from = Clock::now();
    for (int k = 0; k < trips; ++k, next += 2) {
      line.count.store(next, std::memory_order_release);
      while (line.count.load(std::memory_order_acquire) != next + 1) {
      }
    }
    const double trip = nanoseconds(Clock::now() - from) / trips;
    least = i == 0 ? trip : std::min(least, trip);
  }
  line.count.store(kStop, std::memory_order_release);
  return least;
}

std::optional<double> round_trip_ns(int here, int there, Clock::time_point until) {
  Line line;
  std::atomic<int> failed = 0;
  std::thread answers([&] {
    if (!bind_to(there)) failed = 1;
    echo(line);
  });
  double least = 0;
  std::thread calls([&] {
    if (!bind_to(here)) failed = 1;
    least = call(line, kTrips, [&](int tries, double so_far) {
      return (tries < kTries || so_far > kPlausible) && (tries == 0 || Clock::now() < until);
    });
  });
  calls.join();
  answers.join();
  if (failed || least > kPlausible) return std::nullopt;
  return least;
}

// Number of threads or cores to measure against the first; the last one is always among them
int64_t others_of(int64_t size) {
  return size < 2 ? 0 : std::min<int64_t>(size, kMostCpus) - 1;
}

}  // namespace

std::optional<double> core_round_trip_ns(const std::vector<int>& cpus) {
  const Clock::time_point until = Clock::now() + kMost;
  std::optional<double> farthest;
  const auto size = static_cast<int64_t>(cpus.size()), others = others_of(size);
  for (int64_t i = 1; i <= others; ++i) {
    const auto trip = round_trip_ns(cpus[0], cpus[static_cast<size_t>(i * (size - 1) / others)], until);
    if (!trip) return std::nullopt;
    farthest = std::max(farthest.value_or(0), *trip);
  }
  return farthest;
}

std::optional<double> team_round_trip_ns(int threads) {
  constexpr int kTeamTrips = 20, kTeamTries = 3;
  double farthest = 0;
  const int64_t others = others_of(threads);
  for (int64_t i = 1; i <= others; ++i) {
    const auto other = static_cast<int>(i * (threads - 1) / others);
    Line line;
#pragma omp parallel num_threads(threads)
    if (omp_get_num_threads() > other) {  // OpenMP may provide fewer threads
      if (omp_get_thread_num() == other) echo(line);
      if (omp_get_thread_num() == 0)
        farthest =
            std::max(farthest, call(line, kTeamTrips, [](int tries, double) { return tries < kTeamTries; }));
    }
  }
  if (farthest <= 0 || farthest > kPlausible) return std::nullopt;
  return farthest;
}

}  // namespace isobar
