// What runs linked programs, as the training loop and the watchdog see it: threads on a CPU
// (model/engine/executor.h), streams on a GPU (model/backend/cuda/executor.h).
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
};

class Runner {
 public:
  virtual ~Runner() = default;
  /// Returns when every lane is done.
  virtual void operator()(const Program& program, int32_t step) = 0;
  /// The program will be run many times and stays where it is. `ahead`: its runs fetch samples that follow
  /// one another, so those of the next may be fetched under this one (Backend::on_fetch).
  virtual void keep(const Program&, bool ahead = false) { (void)ahead; }

  /// Spans of what is run from here on; null: none.
  virtual void record_to(SpanRecorder* recorder) = 0;
  /// Whether op_times() counts what is run now.
  virtual bool times_ops() const = 0;
  virtual const std::vector<OpTime>& op_times() const = 0;  // by Plan::ops index
  virtual void set_op_times(std::vector<OpTime> times) = 0;
  virtual void reset_op_times() = 0;
  /// By Plan::routines index, where a device times them in every run: from a routine's first op on the
  /// compute lane to the next routine's. Empty on a CPU, whose ops are timed always. Reset with the op times.
  virtual const std::vector<OpTime>& routine_times() const {
    static const std::vector<OpTime> none;
    return none;
  }

  /// What is running now, for a hang report. Any thread may ask.
  virtual std::string now_running() const = 0;
  /// Moves while ops begin or end; a watchdog looks whether it does. Any thread may ask.
  virtual int64_t progress() const = 0;
  /// Whether all that is under way are transfers that this rank has begun: it waits for other ranks. False
  /// where that is not known. Any thread may ask.
  virtual bool waits_for_others() const { return false; }
};

}  // namespace isobar
