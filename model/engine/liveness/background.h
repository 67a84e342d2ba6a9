// All that works beside the training thread: the receiver of signals, the watchdog's thread, and the thread
// that writes for the watchdog. One object starts them. Its destructor, on every way out, stops the watchdog,
// lets the writer finish what it has begun, joins both, and restores the signals' handlers.
//
//   Background background(spec, mpi);
//   const auto part = background.slow().begin("reading samples");   // on any thread
//   background.leave();                                             // a training that came to its end
//
// Results, checkpoints and curves are written by the training thread, as slow work: nothing of them is left
// to drain. Loaders and executors own their threads and join them when the trainer is destroyed.
#pragma once
#include "model/base/spec/spec.h"
#include "model/comm/comm.h"
#include "model/engine/liveness/background_writer.h"
#include "model/engine/liveness/run_end.h"
#include "model/engine/liveness/signals.h"
#include "model/engine/liveness/slow_work.h"
#include "model/engine/liveness/watchdog.h"

namespace isobar::engine {

class Background {
 public:
  /// Collective over all ranks. `spec` and `mpi` must outlive it.
  Background(const RunSpec& spec, const comm::Mpi& mpi)
      : watchdog_(&mpi, slow_, writer_, spec.run.hang_timeout, watchdog_reports(spec, mpi)) {}

  SlowWork& slow() { return slow_; }
  Watchdog& watchdog() { return watchdog_; }
  /// Called by every rank at its end; returns when all have called it. A failing rank does not call it: the
  /// others would wait.
  void leave() { watchdog_.leave(); }

 private:
  // Declared in the order of their start: each is used by those below it.
  const StopSignals signals_;
  SlowWork slow_;
  BackgroundWriter writer_;
  Watchdog watchdog_;
};

}  // namespace isobar::engine
