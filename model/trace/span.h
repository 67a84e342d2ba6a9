// One span = one op's time on one lane. Measured (by the engine) and predicted (by the predictor's replay)
// timelines are the same record, so one writer serves both.
#pragma once
#include <cstdint>
#include <vector>

#include "model/plan/op.h"

namespace isobar {

struct Span {
  int32_t rank;
  int32_t step;   // optimizer step
  int32_t instr;  // index into the linked program: the join key of predicted and measured
  int32_t op;     // index into Plan::ops
  int32_t micro;  // micro-batch
  Lane lane;
  int64_t begin_ns, end_ns;  // from the start of the step (predicted) or of the run (measured)
};

struct StepTime {  // the whole step as the training loop saw it: what spans are held against
  int32_t rank, step;
  int64_t begin_ns, end_ns;
};

struct Timeline {
  std::vector<Span> spans;
  std::vector<StepTime> steps;
};

}  // namespace isobar
