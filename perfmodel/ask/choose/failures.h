// Cost of failures in long training: how often to write a checkpoint, and the useful share of time.
//
//   const Failures f = failures(3600 * 3.1, 21.3, 300);   // seconds: the job's MTBF, a checkpoint, a restart
//   f.every_s, f.useful                                   // 630 s between checkpoints; 92 % useful time
//
// Young 1974 (Comm. ACM 17(9)): interval sqrt(2 c M); Daly 2006 (Future Generation Computer Systems 22(3)):
// the higher-order optimum, eq. 37, and the wall time with random failures, also during checkpoints and
// restarts, eq. 20.
#pragma once

namespace isobar::perf {

struct Failures {
  double every_s = 0;  // work between two checkpoints
  double useful = 1;   // work over wall time
};
/// Throws std::invalid_argument unless all are above 0 (`restart_s` may be 0).
Failures failures(double mtbf_s, double checkpoint_s, double restart_s);
/// The useful share at another interval.
double useful_share(double mtbf_s, double checkpoint_s, double restart_s, double every_s);

/// One accelerator's MTBF, with its share of all that stops a job, if the machine file gives none: 419
/// unexpected interruptions in 54 days on 16,384 H100 (Llama 3, arXiv:2407.21783, table 5).
constexpr double kMtbfHours = 54.0 * 24 * 16384 / 419;
/// From a failure to the next step, without reading the checkpoint: an assumption, minutes if automatic.
constexpr double kRestartSeconds = 300;

}  // namespace isobar::perf
