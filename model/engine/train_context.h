// A rank's training before its loop: its settings, its device, the other ranks, and where it reports. It is
// complete before the trainer is made and outlives it.
//
//   const TrainContext run{spec, options, mpi, …};   // prepare(), train.cpp
//   run.say("started in 5.1 s");                     // where this rank prints
#pragma once
#include <cstdio>
#include <string>

#include "model/comm/comm.h"
#include "model/engine/liveness/background.h"
#include "model/engine/liveness/result_log.h"
#include "model/engine/liveness/resume.h"
#include "model/engine/observers/starting.h"
#include "model/engine/processor.h"
#include "model/engine/train.h"

namespace isobar::engine {

struct TrainContext {
  const RunSpec& spec;  // with its micro-batch
  const TrainOptions& options;
  const comm::Mpi& mpi;
  const Resume* resume;  // complete on rank 0, elsewhere only the checkpoint; null: starts anew
  ComputeDevice device;
  std::string micro_batch;  // how it was chosen, "" if given
  int threads = 1;
  ResultLog log;  // writes on rank 0 only
  Background& background;
  Starting& starting;

  /// Prints a line on rank 0, with TrainOptions::every_rank on all.
  void say(const std::string& line) const {
    if (options.quiet || (mpi.rank() != 0 && !options.every_rank)) return;
    const auto printing = background.slow().begin("printing");  // a pipe may be full
    std::printf("%s\n", line.c_str());
  }
};

}  // namespace isobar::engine
