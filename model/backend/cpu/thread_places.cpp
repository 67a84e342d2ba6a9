#include "model/backend/cpu/thread_places.h"

#include <sched.h>

#include <mutex>

namespace isobar::cpu {
namespace {

std::mutex mutex;
std::vector<int> places;  // of threads 0, 1, …; empty: no binding
std::vector<int> whole;

// If the system refuses, the thread stays unbound.
void bind_self(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int c : cpus) CPU_SET(c, &set);
  if (!cpus.empty()) sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

namespace detail {

std::atomic<int> places_version = 0;

void take_place(int thread) {
  const std::lock_guard lock(mutex);
  own_places = places_version;
  if (thread == 0) return;  // place_threads has bound it
  if (places.empty()) return bind_self(whole);
  if (const auto t = static_cast<size_t>(thread); t < places.size()) bind_self({places[t]});
}

}  // namespace detail

void place_threads(std::vector<int> cpus, const std::vector<int>& around) {
  const std::lock_guard lock(mutex);
  bind_self(around);
  places = std::move(cpus), whole = around;
  detail::own_places = ++detail::places_version;
}

}  // namespace isobar::cpu
