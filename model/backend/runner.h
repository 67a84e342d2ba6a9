// Runs linked programs; the interface of the training loop and the watchdog to threads on a CPU
// (model/engine/executor.h) or streams on a GPU (model/backend/cuda/executor.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/plan/link.h"
#include "model/trace/recorder.h"

namespace isobar {

struct OpTime {
  int64_t count = 0;
  double seconds = 0;
  // Copies from the host for the next step, during this one: of a fetch on a GPU
  int64_t landings = 0;
  double landing_seconds = 0;
};

class Runner {
 public:
  virtual ~Runner() = default;
  /// Returns when every lane is done.
  virtual void operator()(const plan::Program& program, int32_t step) = 0;
  /// Announces many runs of the program, which must not move. `ahead`: runs fetch consecutive samples, so the
  /// next run's may be fetched during this one (Backend::on_fetch).
  virtual void keep(const plan::Program&, bool ahead = false) { (void)ahead; }

  /// Records spans of later runs; null: stops.
  virtual void record_to(trace::SpanRecorder* recorder) = 0;
  /// True if op_times() includes the current runs.
  virtual bool times_ops() const = 0;
  virtual const std::vector<OpTime>& op_times() const = 0;  // by Plan::ops index
  virtual void set_op_times(std::vector<OpTime> times) = 0;
  virtual void reset_op_times() = 0;
  /// By Plan::routines index, if a device times them in every run: from a routine's first op on the compute
  /// lane to the next routine's. Empty on a CPU, which always times ops. Reset with the op times.
  virtual const std::vector<OpTime>& routine_times() const {
    static const std::vector<OpTime> none;
    return none;
  }

  /// The ops now running, for a hang report. Callable from any thread.
  virtual std::string now_running() const = 0;
  /// Changes while ops begin or end, for a watchdog. Callable from any thread.
  virtual int64_t progress() const = 0;
  /// True if the only pending work is transfers that this rank has begun: it waits for other ranks. False if
  /// unknown. Callable from any thread.
  virtual bool waits_for_others() const { return false; }
};

}  // namespace isobar
