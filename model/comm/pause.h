// Waiting for other ranks. Most waits are short, and MPI moves data only inside its calls: so whoever waits
// asks again at once for a while, then sleeps in short turns, because others want the core.
//
//   for (Pause pause; !comm.test(requests); pause()) …;
//
// Two ranks whose steps take less than a sleep make each other sleep: one is late once, the other falls
// asleep over it and is late in turn. A step of 60 us then takes 200 to 400. So where every rank has its
// cores to itself (kAwakeOnOwnCores) it asks for longer than one that was late needs to come, and so does its
// communication thread. Not across hosts: there the kernel wants the core to move packets, and an all-reduce
// of two hosts of one core took 4 ms behind ranks that asked on.
//
// It never yields, and MPI is kept from it (Mpi::Mpi): whoever sleeps is woken as soon as its time has come,
// but whoever yields stands behind all that compute, some milliseconds each time on a machine that others
// use. Two ranks beside four busy processes took more than ten times as long so.
#pragma once
#include <sys/prctl.h>
#include <time.h>

#include <chrono>

namespace isobar {

class Pause {
 public:
  using Clock = std::chrono::steady_clock;
  // How long it asks before it sleeps. Time, not a number of asks: an ask of MPI takes 0.2 us, one of another
  // thread's progress 5 ns.
  static constexpr std::chrono::microseconds kAwake{50}, kAwakeOnOwnCores{500};
  explicit Pause(std::chrono::microseconds awake = kAwake) : awake_(awake) {}
  void operator()() {
    if (!asleep_) {
      const Clock::time_point now = Clock::now();
      if (since_ == Clock::time_point{}) since_ = now;
      asleep_ = now - since_ > awake_;
      return;
    }
    static thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1000);  // ns: not 50 us longer than asked
    static_cast<void>(slack);
    const timespec turn{0, 20000};
    nanosleep(&turn, nullptr);
  }
  void again() {
    since_ = {};
    asleep_ = false;
  }
  bool asleep() const { return asleep_; }

 private:
  std::chrono::microseconds awake_;
  Clock::time_point since_{};  // of the first ask
  bool asleep_ = false;
};

}  // namespace isobar
