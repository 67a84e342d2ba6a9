// One span = one op's time on one lane. Measured (by the engine) and predicted (by the predictor's replay)
// timelines are the same record, so one writer serves both, and what is read back from the file is it again.
#pragma once
#include <cstdint>
#include <string>
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

/// A span that stands by itself, without the plan that `op` points into: of a file, or of several plans.
struct OpSpan : Span {
  std::string path, kind;  // of the op; an older trace may call kinds what none is called now
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
