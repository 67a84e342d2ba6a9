#include "model/engine/core_hops.h"

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
constexpr double kPlausible = 2000;  // ns: above, another thread was on one of the cores all the time
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

// The line counts up: one side makes it odd, the other even.
std::optional<double> round_trip_ns(int here, int there, Clock::time_point until) {
  struct alignas(128) Line {
    std::atomic<int> count = 0;
  } line;
  std::atomic<int> failed = 0;
  std::thread echo([&] {
    if (!bind_to(there)) failed = 1;
    for (int next = 1;; next += 2) {
      int seen;
      while ((seen = line.count.load(std::memory_order_acquire)) != next)
        if (seen == kStop) return;
      line.count.store(next + 1, std::memory_order_release);
    }
  });
  double least = 0;
  std::thread call([&] {
    if (!bind_to(here)) failed = 1;
    int next = 1;
    for (int i = 0; (i < kTries || least > kPlausible) && (i == 0 || Clock::now() < until); ++i) {
      const Clock::time_point from = Clock::now();
      for (int k = 0; k < kTrips; ++k, next += 2) {
        line.count.store(next, std::memory_order_release);
        while (line.count.load(std::memory_order_acquire) != next + 1) {
        }
      }
      const double trip = nanoseconds(Clock::now() - from) / kTrips;
      least = i == 0 ? trip : std::min(least, trip);
    }
    line.count.store(kStop, std::memory_order_release);
  });
  call.join();
  echo.join();
  if (failed || least > kPlausible) return std::nullopt;
  return least;
}

}  // namespace

std::optional<double> core_round_trip_ns(const std::vector<int>& cpus) {
  const Clock::time_point until = Clock::now() + kMost;
  std::optional<double> farthest;
  const size_t others = cpus.size() < 2 ? 0 : std::min<size_t>(cpus.size(), kMostCpus) - 1;
  for (size_t i = 1; i <= others; ++i) {
    const auto trip = round_trip_ns(cpus[0], cpus[i * (cpus.size() - 1) / others], until);
    if (!trip) return std::nullopt;
    farthest = std::max(farthest.value_or(0), *trip);
  }
  return farthest;
}

}  // namespace isobar
