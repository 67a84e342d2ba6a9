// Memory record of run_start and the run_end record of result.jsonl.
#pragma once
#include <vector>

#include "model/backend/runner.h"
#include "model/base/spec/spec.h"
#include "model/records/records.h"

namespace isobar::engine {

records::StartRecord start_of_run(const RunSpec& spec, const plan::Plan& plan, int ranks, int ranks_on_host,
                                  int threads, bool resumed);
/// Op times are summed by path over routines and micro-batches; `routine_times` are empty unless a device
/// measures them. `samples_per_s` uses kStatistic (model/base/step_stats.h). `step_seconds`: without warm-up;
/// `timed_seconds`: sum over the steps whose ops were timed.
records::EndRecord summary_of_run(const RunSpec& spec, const plan::Plan& plan,
                                  const std::vector<OpTime>& times, const std::vector<OpTime>& routine_times,
                                  std::vector<double> step_seconds, double timed_seconds);
records::MemoryRecord memory_of(const plan::Memory& of);

}  // namespace isobar::engine
