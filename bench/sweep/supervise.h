// What the supervisor of one command does (see process.h); runs in a forked child and never returns.
#pragma once
#include "bench/sweep/process.h"

namespace isobar {

/// `control`: a byte asks to cancel, end-of-file means that the owner died. `report`: gets one
/// ProcessOutcome.
[[noreturn]] void supervise(const ProcessJob& job, int control, int report);

}  // namespace isobar
