// Data loading of a step: its counts, and the time that it takes beside compute.
//
//   const Reading r = reading_of(spec, where);
//   const ReadTime t = read_time(r, machine.values(), rates(machine.values(), where));
//   step += t.serial + t.stolen, step += t.wait(step);
#pragma once
#include <cstdint>
#include <string>

#include "model/base/spec/spec.h"
#include "perfmodel/step/conditions.h"

namespace isobar::perf {

/// Loading of one rank's samples of a step.
struct Reading {
  Conditions where;
  Counts counts{};
  int64_t workers = 0;  // loader threads; 0: the compute thread reads, or the host of an accelerator
  double landed = 0;    // bytes that the host copies to its accelerator
  bool ahead = true;    // an accelerator's host reads for the next step; a replay buffer forbids it
};
Reading reading_of(const RunSpec& spec, const Conditions& where);

struct ReadTime {
  double serial = 0;         // on the critical path: the compute thread reads, or takes over a batch
  double stolen = 0;         // compute displaced by loader threads
  double supply = 0;         // least time of a step by the rate of reading
  double landing = 0;        // copies to the accelerator, on a lane of their own
  bool by_launcher = false;  // no workers: the host launches a step, then reads for the next
  /// Seconds that a step of `step` seconds waits for data. A launcher whose copy is late begins the next read
  /// late, so near balance a step takes the mean of both lanes.
  double wait(double step) const;
};
ReadTime read_time(const Reading& reading, const Counts& coefficients, const Counts& rates);

/// Bytes of `samples` samples as a rank computes with them: f32, inputs and targets.
double read_bytes(const RunSpec& spec, int64_t samples);
/// Counts of reading `samples` samples of this run's data. The format follows from data.train's name; Zarr is
/// assumed to be compressed.
Counts count_read(const RunSpec& spec, int64_t samples);

/// The kind of benchmark that times reading of a run's fields (fitting/calibrate.h): read_hdf5 …
std::string read_kind(const RunSpec& spec);

/// The suffix of benchmarks of a run's own data, after kind and type.
constexpr const char* kOwnData = "own";

}  // namespace isobar::perf
