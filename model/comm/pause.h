// Waiting for other ranks. Most waits are short, and MPI moves data only inside its calls: so whoever waits
// asks again at once for a while, then sleeps in short turns, because others want the core.
//
//   for (Pause pause; !comm.test(requests); pause()) …;
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
  static constexpr int kAsks = 200;  // at once, before it sleeps
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
