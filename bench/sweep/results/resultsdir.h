// Operations on a results directory: exclusive access, storing the matrix, reading back its runs.
//
//   open_results("results/demo");                       // makes it, or refuses another version's
//   const FileLock lock = lock_results("results/demo", 15);   // ConfigError when somebody else holds it for
//   15 s
#pragma once
#include <filesystem>
#include <vector>

#include "bench/sweep/run/classify.h"
#include "bench/sweep/run/runner.h"
#include "model/base/system/lock.h"

namespace isobar::sweep {

/// Held while a local sweep runs, and briefly by a cluster's submitter while it plans. A trial's supervisor
/// inherits it, so after a kill it is released only when the trial's last process is gone.
FileLock lock_results(const std::filesystem::path& dir, double wait_s);

/// Creates DIR and DIR/trials. Throws ConfigError if another version wrote it or it is not writable.
void open_results(const std::filesystem::path& results);
void write_matrix(const Matrix& m, const SweepSpec& sweep, const std::filesystem::path& results);

/// Every run of the directory; `outcome.runs` gets those of the matrix, in its order.
std::vector<records::RunRecord> collect_runs(const Matrix& m, const std::filesystem::path& results,
                                             SweepOutcome& outcome);

/// Time limit of a trial in seconds: the sweep file's, else 60 plus four times the forecast's upper bound,
/// else an hour.
double time_limit(const TrialLimits& l, const Trial& t);
ProcessLimits limits_of(const TrialLimits& l, const Trial& t);
Plausibility plausibility_of(const Trial& t, const TrialLimits& l);

}  // namespace isobar::sweep
