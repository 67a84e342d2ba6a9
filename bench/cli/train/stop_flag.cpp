#include "bench/cli/train/stop_flag.h"

#include <signal.h>

namespace isobar::cli {
namespace {

volatile std::sig_atomic_t g_stop = 0;  // written by the signal handler only

void on_signal(int s) {
  g_stop = s;
}

}  // namespace

volatile std::sig_atomic_t& stop_flag() {
  return g_stop;
}

void catch_signals(std::initializer_list<int> signals, int flags) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = flags;
  for (int s : signals) ::sigaction(s, &action, nullptr);
}

}  // namespace isobar::cli
