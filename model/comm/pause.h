// Waiting for other ranks. Most waits are short, and MPI moves data only inside its calls: so whoever waits
// asks again at once for a while, then sleeps in short turns, because others want the core.
//
//   for (Pause pause; !comm.test(requests); pause()) …;
//
// Two ranks whose steps take less than a sleep make each other sleep: one is late once, the other falls
// asleep over it and is late in turn. A step of 60 us then takes 200 to 400. So where every rank has its
// cores to itself (kAsksOnOwnCores) it asks for longer than one that was late needs to come. Not across
// hosts: there the kernel wants the core to move packets, and an all-reduce of two hosts of one core took 4
// ms behind ranks that asked on.
//
// It never yields, and MPI is kept from it (Mpi::Mpi): whoever sleeps is woken as soon as its time has come,
// but whoever yields stands behind all that compute, some milliseconds each time on a machine that others
// use. Two ranks beside four busy processes took more than ten times as long so.
#pragma once
#include <sys/prctl.h>
#include <time.h>

namespace isobar {

class Pause {
 public:
  // at once, before it sleeps: some 50 us, and half a millisecond
  static constexpr int kAsks = 200, kAsksOnOwnCores = 3000;
  explicit Pause(int asks = kAsks) : asks_(asks) {}
  void operator()() {
    if (++turns_ <= asks_) return;
    static thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1000);  // ns: not 50 us longer than asked
    static_cast<void>(slack);
    const timespec turn{0, 20000};
    nanosleep(&turn, nullptr);
  }
  void again() { turns_ = 0; }

 private:
  int asks_, turns_ = 0;
};

}  // namespace isobar
