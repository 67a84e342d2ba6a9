// The first and the last line of result.jsonl.
#pragma once
#include <vector>

#include "model/backend/runner.h"
#include "model/base/spec.h"
#include "model/records/records.h"

namespace isobar {

StartRecord start_of_run(const RunSpec& spec, const Plan& plan, int ranks, int ranks_on_host, int threads,
                         bool resumed);
/// Op times summed by path over routines and micro-batches; routines' where a device takes them.
/// `samples_per_s` is that of kStatistic (model/base/step_stats.h). `step_seconds`: without warm-up;
/// `timed_seconds`: those of them, summed, whose ops were timed.
EndRecord summary_of_run(const RunSpec& spec, const Plan& plan, const std::vector<OpTime>& times,
                         const std::vector<OpTime>& routine_times, std::vector<double> step_seconds,
                         double timed_seconds);
MemoryRecord memory_of(const Memory& of);

}  // namespace isobar
