#include "model/engine/liveness/signals.h"

#include <signal.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "model/comm/comm.h"

namespace isobar::engine {
namespace {

constexpr std::array kCaught = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

// Globals, because a signal handler can access nothing else.
std::atomic<int> g_count{0}, g_first{0};
std::atomic<int64_t> g_first_ns{0};
std::array<struct sigaction, kCaught.size()> g_before;
sigset_t g_mask_before;

void on_signal(int s) {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  const int64_t now = t.tv_sec * 1'000'000'000 + t.tv_nsec;
  int none = 0;
  if (g_first.compare_exchange_strong(none, s)) g_first_ns = now;
  // Schedulers signal every process of a job and launchers forward it, so signals in quick succession count
  // once.
  if (g_count > 0 && now - g_first_ns < 500'000'000) return;
  // The third uses the default action, which ends the process even if the watchdog is stuck.
  if (g_count.fetch_add(1) + 1 >= 2) ::signal(s, SIG_DFL);
}

sigset_t caught() {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : kCaught) sigaddset(&set, s);
  return set;
}

bool started_by_train() {
  return std::getenv(StopSignals::kStartedByTrain) != nullptr;
}

}  // namespace

StopSignals::StopSignals() {
  g_count = g_first = 0;
  const sigset_t all = caught();
  ::pthread_sigmask(SIG_BLOCK, &all, &g_mask_before);
  for (size_t i = 0; i < kCaught.size(); ++i) {
    ::sigaction(kCaught[i], nullptr, &g_before[i]);
    if (g_before[i].sa_handler == SIG_IGN || (kCaught[i] == SIGUSR2 && !started_by_train())) continue;
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    ::sigaction(kCaught[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kCaught.size(); ++i) ::sigaction(kCaught[i], &g_before[i], nullptr);
  ::pthread_sigmask(SIG_SETMASK, &g_mask_before, nullptr);
}

void StopSignals::receive_here() {
  const sigset_t all = caught();
  ::pthread_sigmask(SIG_UNBLOCK, &all, nullptr);
}

int StopSignals::count() {
  return g_count;
}

int StopSignals::first() {
  const int s = g_first;
  if (!started_by_train()) return s;
  return s == SIGUSR1 ? SIGTERM : s == SIGUSR2 ? SIGINT : s;
}

bool StopSignals::pressing() {
  const int s = g_first;
  return comm::Mpi::started_by_launcher() && (s == SIGTERM || s == SIGINT || s == SIGHUP);
}

}  // namespace isobar::engine
