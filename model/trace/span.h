// One span = one op's time on one lane. Measured (engine) and predicted (replay) timelines share this record,
// and with it writer and reader.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/plan/ops/op.h"

namespace isobar::trace {

struct Span {
  int32_t rank;
  int32_t step;   // optimizer step
  int32_t instr;  // index into the linked program: the join key of predicted and measured
  int32_t op;     // index into Plan::ops
  int32_t micro;  // micro-batch
  plan::Lane lane;
  int64_t begin_ns, end_ns;  // from the start of the step (predicted) or run (measured)
};

/// A span without the plan that `op` indexes: of a file, or of several plans.
struct OpSpan : Span {
  std::string path, kind;  // of the op; kinds of older traces may no longer exist
};

struct StepTime {  // the whole step as the training loop measured it, to compare with spans
  int32_t rank, step;
  int64_t begin_ns, end_ns;
};

struct Timeline {
  std::vector<Span> spans;
  std::vector<StepTime> steps;
};

}  // namespace isobar::trace
