// The chance that a layout's memory fits, from the uncertain parts of it.
//
//   chance_to_fit(c.memory, memory_sigma(c, machine, l.zero), 80e9)     // 0.74: 79.5 of 80 GB
//   chance_to_fit(80e9, 70e9, 93e9, 85e9)                               // of an 80 % interval
//
// Isobar's placed plan is exact, but the memory of the process, libraries and NCCL is not; closed forms miss
// placed plans by some percent (tests/perfmodel/layouts/layout_model_test.cpp). A layout is ranked by step
// time over this chance: a run that does not fit has no throughput.
#pragma once
#include "perfmodel/layouts/layout_model.h"

namespace isobar::perf {

/// Sigma of the uncertain bytes. `placed`: the plan's bytes are exact.
double memory_sigma(const LayoutCost& c, const Machine& m, int zero, bool placed);
/// With a normal error about `bytes`.
double chance_to_fit(double bytes, double sigma, double there);
/// With a log-normal error of this 80 % interval, whose sides may differ.
double chance_to_fit(double bytes, double lower, double upper, double there);

}  // namespace isobar::perf
