// Text that a training prints besides its steps: what is trained, before the first step; how it went, after
// the last.
//
//   net        vit, 134,976 parameters: 4 blocks of 64, 4 heads, 4 -> 4 channels of 32 x 64
//   layout     dp 2: 2 ranks on 1 host, 1 thread each
//   …
//   trained    20 steps in 0.4 s: 18.21 ms a step (median; 80 % from 17.90 to 19.03), 439 samples/s
//   …
//
// Records and printed lines of a training before its first step.
//
//   record_start(run, plan);                 // run_start of result.jsonl, spec.json
//   print_header(run, plan, data);
//   print_loss_weights(run, weighted.train, data);
#pragma once
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/data/choice/left_out.h"
#include "model/engine/rank_data.h"
#include "model/engine/train_context.h"
#include "model/records/records.h"

namespace isobar::engine {

std::string summary_text(const RunSpec& spec, const records::EndRecord& end);

void record_start(const TrainContext& run, const plan::Plan& plan);
/// Collective.
void print_header(const TrainContext& run, const plan::Plan& plan, const RankData& data);
/// `weighted`: with the loss weights of the data's channels. Prints nothing if all are 1.
void print_loss_weights(const TrainContext& run, const TrainSpec& weighted, const RankData& data);

}  // namespace isobar::engine
