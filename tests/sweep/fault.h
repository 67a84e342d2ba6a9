// Faults that fake_train commits, by the value of train.seed.
#pragma once

namespace isobar::sweep {

enum class Fault {
  none = 0,  // also any number not listed
  segv = 101,
  abort,
  hang,     // ignores SIGTERM, with a child in its own session
  exhaust,  // allocates memory until it is stopped
  bad_alloc,
  numeric,
  bad_config,
  no_start,     // exit code 1 before run_start
  slow,         // takes ten minutes
  silent_exit,  // exit code 0 without run_end
  half_line,    // killed in the middle of a line
  stray,        // succeeds but leaves a process behind
  late_segv,    // crashes after run_end
  crawl,        // a step every half second, forever
};

}  // namespace isobar::sweep
