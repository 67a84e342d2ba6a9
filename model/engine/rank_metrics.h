// How each rank did in the steps so far: time in ops, waits for data, memory, clock, and the energy that was
// metered. What the ranks measured comes to rank 0 where a run stops to validate or to save, and at its end.
//
//   RankMetrics metrics(plan, processor, mpi, device.gpu);
//   metrics.begin_step(); … ; metrics.add(seconds, waited);
//   metrics.pause();                              // validations and checkpoints are no training
//   log.write(metrics.report(step, runner));      // collective; rank 0 has all
#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

#include "model/backend/runner.h"
#include "model/comm/comm.h"
#include "model/engine/energy_meter.h"
#include "model/engine/processor.h"
#include "model/plan/plan.h"
#include "model/records/records.h"

namespace isobar {

class RankMetrics {
 public:
  RankMetrics(const Plan& plan, const Processor& processor, const Mpi& mpi, bool gpu);
  void reset();  // with the runner's times of ops: warm-up is over
  void begin_step() { meter_.run(); }
  void add(double step_s, double data_wait_s);
  void pause() { meter_.pause(); }
  int64_t steps() const { return steps_; }
  RanksRecord report(int64_t step, const Runner& runner);

 private:
  void measure_cores();
  void measure_team();
  RanksRecord own(int64_t step, const Runner& runner) const;
  const Plan& plan_;
  const Processor& processor_;
  const Mpi& mpi_;
  const bool gpu_;
  EnergyMeter meter_;                            // of a GPU's rank its own, of a host's first rank the host's
  std::vector<double> host_trips_, team_trips_;  // ns, core_hops.h: where ranks stop; between steps
  std::chrono::steady_clock::time_point next_trip_{};
  std::chrono::milliseconds between_trips_{20};
  int64_t steps_ = 0;
  double step_s_ = 0, data_wait_s_ = 0;  // sums
};

/// Those of all ranks as one. The energy is known where every rank that meters knows its own.
RanksRecord merged(const std::vector<RanksRecord>& of_ranks);

}  // namespace isobar
