// A results directory as a whole: one writer at a time, the matrix written down, all runs of a matrix read
// back.
//
//   open_results("results/demo");                       // makes it, or refuses another version's
//   const DirLock lock("results/demo", 15);             // ConfigError when somebody else holds it for 15 s
//
#pragma once
#include <filesystem>
#include <vector>

#include "bench/sweep/runner.h"
#include "model/base/lock.h"

namespace isobar {

/// Held while a local sweep runs, and by a cluster's submitter for the moments in which it plans. The
/// supervisor of a trial inherits it, so after a kill it becomes free only when the trial's last process is
/// gone.
class DirLock {
 public:
  DirLock(const std::filesystem::path& dir, double wait_s);

 private:
  FileLock lock_;
};

/// Makes DIR and DIR/trials. Throws ConfigError when another version wrote it, or it cannot be written.
void open_results(const std::filesystem::path& results);
void write_matrix(const Matrix& m, const SweepSpec& sweep, const std::filesystem::path& results);

/// Every run in the directory; `outcome.runs` gets those of the matrix, in its order.
std::vector<RunRecord> collect_runs(const Matrix& m, const std::filesystem::path& results,
                                    SweepOutcome& outcome);

/// Wall clock that a trial gets: what the sweep file says, else a minute and four times the upper end of what
/// is forecast, else an hour.
double time_limit(const TrialLimits& l, const Trial& t);
ProcessLimits limits_of(const TrialLimits& l, const Trial& t);
Plausibility plausibility_of(const Trial& t, const TrialLimits& l);

}  // namespace isobar
