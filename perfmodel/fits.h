// Will it fit: the chance that a layout's memory does, from what is not known of it.
//
//   chance_to_fit(c.memory, memory_sigma(c, machine, l.zero), 80e9)     // 0.74: 79.5 of 80 GB
//   chance_to_fit(80e9, 70e9, 93e9, 85e9)                               // of an 80 % interval
//
// Of Isobar's own engine the placed plan is exact; what the process, its libraries and NCCL take beside it is
// not. Closed forms miss placed plans by some percent (tests/perfmodel/layout_model_test.cpp holds them to
// it). A layout is worth its step time over this chance: a run that does not fit has no throughput.
#pragma once
#include "perfmodel/layouts/layout_model.h"

namespace isobar {

/// Bytes that are not known: one sigma. `placed`: the plan's bytes are.
double memory_sigma(const LayoutCost& c, const Machine& m, int zero, bool placed);
/// Of a normal error about `bytes`.
double chance_to_fit(double bytes, double sigma, double there);
/// Of a log-normal one with this 80 % interval, whose sides may differ.
double chance_to_fit(double bytes, double lower, double upper, double there);

}  // namespace isobar
