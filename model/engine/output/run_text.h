// Text that a training prints besides its steps: what is trained, before the first step; how it went, after
// the last.
//
//   net        vit, 134,976 parameters: 4 blocks of 64, 4 heads, 4 -> 4 channels of 32 x 64
//   layout     dp 2: 2 ranks on 1 host, 1 thread each
//   …
//   trained    20 steps in 0.4 s: 18.21 ms a step (median; 80 % from 17.90 to 19.03), 439 samples/s
//   …
#pragma once
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/data/choice/left_out.h"
#include "model/records/records.h"

namespace isobar::engine {

struct RunFacts {                       // facts that the specification does not contain
  int64_t parameters = 0, trained = 0;  // all, and those not frozen
  int64_t memory_bytes = 0;             // of the fullest rank, as planned
  std::string micro_batch;              // how the engine chose it; "" if it was given
  int ranks = 1, ranks_on_host = 1, threads = 1;
  data::LeftOut left_out;
  std::vector<std::string> flat_channels;    // Dataset::flat_channels
  int64_t steps_per_epoch = 0, samples = 0;  // of the training data
  bool validates = false;
  int64_t first_step = 0;  // the run resumes after this step
  std::string device;
};

/// "rank 3 of 8: dp 1, tp 1, cp 0, pp 0; process 1234".
std::string place_text(const LayoutSpec& layout, int rank, int ranks);
std::string header_text(const RunSpec& spec, const RunFacts& facts);
std::string summary_text(const RunSpec& spec, const records::EndRecord& end);

}  // namespace isobar::engine
