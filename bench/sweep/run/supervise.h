// The supervisor of one command (see process.h); runs in a forked child and never returns.
#pragma once
#include "bench/sweep/run/process.h"

namespace isobar::sweep {

/// `control`: a byte requests cancellation, end-of-file means that the owner died. `report` receives one
/// ProcessOutcome.
[[noreturn]] void supervise(const ProcessJob& job, int control, int report);

}  // namespace isobar::sweep
