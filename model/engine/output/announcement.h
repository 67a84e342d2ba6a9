// Records and printed lines of a training before its first step.
//
//   record_start(run, plan);                 // run_start of result.jsonl, spec.json
//   print_header(run, plan, data);
//   print_loss_weights(run, weighted.train, data);
#pragma once
#include "model/engine/rank_data.h"
#include "model/engine/train_context.h"

namespace isobar::engine {

void record_start(const TrainContext& run, const plan::Plan& plan);
/// Collective.
void print_header(const TrainContext& run, const plan::Plan& plan, const RankData& data);
/// `weighted`: with the loss weights of the data's channels. Prints nothing if all are 1.
void print_loss_weights(const TrainContext& run, const TrainSpec& weighted, const RankData& data);

}  // namespace isobar::engine
