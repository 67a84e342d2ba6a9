// A flag that SIGINT and SIGTERM set, for commands that wait: they leave at the next good moment.
//
//   catch_signals({SIGINT, SIGTERM}, SA_RESETHAND);    // a second one ends the process at once
//   … while (!stop_flag()) …; return 128 + stop_flag();
#pragma once
#include <csignal>
#include <initializer_list>

namespace isobar::cli {

/// The last signal that came; 0: none.
volatile std::sig_atomic_t& stop_flag();
void catch_signals(std::initializer_list<int> signals, int flags);

}  // namespace isobar::cli
