// Peak memory of an accelerator under a foreign engine: parameters and activations in closed form, prices for
// differences of engines (gradient type, saved tensors, fragmentation).
//
//   MemoryCounts m = count_memory(run);
//   double bytes = peak_bytes(m);
//
// Sources: activations of a layer Korthikanti 2022 (sbh (10 + 24/t + 5 a s / h t) for GPT), by operand for
// Llama; ZeRO shards Rajbhandari 2020; in-flight micro-batches Narayanan 2021 and Qi 2024.
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "perfmodel/score/prices/prices.h"
#include "perfmodel/score/published/published_run.h"

namespace isobar::perf {

struct StageMemory {  // bytes
  double weights = 0, gradients = 0, optimizer = 0;
  double stream = 0, attention = 0, ffn = 0, scores = 0;  // of one layer and micro-batch
  double exact = 0;                                       // the same, if every operand is known
  double kept_layers = 0;                                 // layers times micro-batches in flight
  double checkpoint = 0;                                  // one layer input; 0: no recomputation
  double recomputed = 1;                                  // share of layers that are recomputed
  bool scores_again = false;                              // selective recomputation: scores are not kept
  double logits = 0, vocabulary = 0;
  double gathered = 0;          // ZeRO 3: whole layers
  double known = 0;             // what the engine's code says (MemoryHabits), without prices
  std::optional<double> whole;  // total (fsdp_memory.h), instead of all of the above
};
struct MemoryCounts {
  std::vector<StageMemory> stages;  // first, second, last: with lighter ends the second holds most
  double outside = 0;               // outside the allocator, if the driver's reading counts
};

MemoryCounts count_memory(const PublishedRun& run);
/// At the prices before any measurement; kPeakBytes is fitted.
double peak_bytes(const MemoryCounts& m);

}  // namespace isobar::perf
