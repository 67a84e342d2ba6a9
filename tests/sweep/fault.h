// The faults that fake_train commits, by the value of train.seed.
#pragma once

namespace isobar {

enum class Fault {
  none = 0,  // and every other number not listed here
  segv = 101,
  abort,
  hang,     // deaf to SIGTERM, with a child in a session of its own
  exhaust,  // takes memory until it is stopped
  bad_alloc,
  numeric,
  bad_config,
  no_start,     // exit code 1 before run_start
  slow,         // ten minutes
  silent_exit,  // exit code 0 without run_end
  half_line,    // killed in the middle of a line
  stray,        // ends well but leaves a process behind
  late_segv,    // crashes after run_end
  crawl,        // a step every half second, without end
};

}  // namespace isobar
