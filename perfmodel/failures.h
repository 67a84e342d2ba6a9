// What failures cost a long training: how often to write a checkpoint, and which share of the time is useful.
//
//   const Failures f = failures(3600 * 3.1, 21.3, 300);   // MTBF of the job, a checkpoint, a restart;
//   seconds f.every_s, f.useful                                   // 630 s of work between two; 0.92 of the
//   time counts
//
// Young 1974 (Comm. ACM 17(9)): work between checkpoints sqrt(2 c M); Daly 2006 (Future Generation Computer
// Systems 22(3)): the higher-order optimum, eq. 37, and the wall time with failures that come at random also
// while a checkpoint is written or a job starts again, eq. 20.
#pragma once

namespace isobar {

struct Failures {
  double every_s = 0;  // work between two checkpoints
  double useful = 1;   // work over wall time
};
/// Throws std::invalid_argument unless all are above 0 (`restart_s` may be 0).
Failures failures(double mtbf_s, double checkpoint_s, double restart_s);
/// The share at another interval.
double useful_share(double mtbf_s, double checkpoint_s, double restart_s, double every_s);

/// Of one accelerator with its share of everything that stops a job, where the machine file does not say:
/// 419 unexpected interruptions in 54 days on 16,384 H100 (Llama 3, arXiv:2407.21783, table 5).
constexpr double kMtbfHours = 54.0 * 24 * 16384 / 419;
/// From a failure to the next step, reading the checkpoint apart: nobody says; minutes where it is automatic.
constexpr double kRestartSeconds = 300;

}  // namespace isobar
