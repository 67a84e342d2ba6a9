// Per-rank metrics of the steps so far: time in ops, waiting for data, memory, clock, and metered energy.
// Rank 0 collects them when a run stops to validate or save, and at its end.
//
//   RankMetrics metrics(plan, processor, mpi, device.gpu);
//   metrics.begin_step(); … ; metrics.add(seconds, waited);
//   metrics.pause();                              // validations and checkpoints are no training
//   log.write(metrics.report(step, runner));      // collective; rank 0 has all
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/backend/runner.h"
#include "model/comm/comm.h"
#include "model/engine/host/energy_meter.h"
#include "model/engine/processor.h"
#include "model/plan/plan.h"
#include "model/records/records.h"

namespace isobar::engine {

class RankMetrics {
 public:
  RankMetrics(const plan::Plan& plan, const Processor& processor, const comm::Mpi& mpi, bool gpu);
  void reset();  // together with op times, after warm-up
  void begin_step() { meter_.run(), load_.run(); }
  void add(double step_s, double data_wait_s);
  void pause() { meter_.pause(), load_.pause(); }
  int64_t steps() const { return steps_; }
  records::RanksRecord report(int64_t step, const Runner& runner);

 private:
  records::RanksRecord own(int64_t step, const Runner& runner) const;
  const plan::Plan& plan_;
  const Processor& processor_;
  const comm::Mpi& mpi_;
  const bool gpu_;
  EnergyMeter meter_;  // of a GPU rank's device; of a host's first CPU rank's host
  LoadMeter load_;     // of a GPU rank's device
  int64_t steps_ = 0;
  double step_s_ = 0, data_wait_s_ = 0;  // sums
  struct Cores {
    std::chrono::steady_clock::time_point at;
    double own_s = 0;              // of this process
    std::optional<double> busy_s;  // of its cores
  };
  Cores cores_now() const;
  Cores first_;  // at the beginning of these steps
};

/// Merges the ranks' records. The energy is known only if every metering rank knows its own.
records::RanksRecord merged(const std::vector<records::RanksRecord>& of_ranks);

}  // namespace isobar::engine
