// Engines that people run, each a small file of configs/engines: what it overlaps, which axes it has, how
// tuned it is, and the campaigns whose runs tell of it. Engines change policies and prices, never the
// counting.
//
//   const ForeignEngine& e = engine_named("nemo");      // ConfigError lists those there are
//   e.habits.overlaps_tensor; e.tuned.mean              // 0: research code, 1: a tuned submission
#pragma once
#include <map>
#include <string>
#include <vector>

namespace isobar {

/// What an engine does beside its products, as the counts need it (step_model.h).
struct Habits {
  bool overlaps_tensor = false;    // tensor-parallel traffic under the products that feed or need it
  bool overlaps_pipeline = false;  // transfers of interleaved schedules under other chunks
  bool overlaps_gradients = true;  // reduction under the backward, gather under the forward pass
  bool sequence_parallel = false;  // with tensor parallelism, where a table does not say
  bool autocast = false;           // the residual stream stays in fp32
  double tensor_traffic = 1;       // bytes over those of one 2-byte reduction each way
  bool compiled = false;           // pointwise work is compiled into few kernels, where a table does not say
  bool hopper_attention = false;   // flash kernels of the chip's generation (cuDNN's), not FlashAttention-2
  bool device_memory = false;      // memory is read of the driver: context and communicators besides
  bool selective_operators =
      false;                     // selective recomputation keeps every second product's result (torchtitan)
  bool eager_loss = false;       // of logits in fp32 and their gradient lie in memory, not fused
  bool fully_sharded = false;    // PyTorch's fully_shard, counted moment by moment (fsdp_memory.h)
  bool ends_in_root = false;     // ... the embedding and the head are one unit, the root's
  bool norms_apart = false;      // norms are operations in fp32 that keep what they read, unless compiled
  bool own_collectives = false;  // written by hand: they copy operands, and end what is compiled
};

/// How tuned an engine's runs are: a latent of each campaign, from 0 (research code) to 1 (a submission to
/// MLPerf), which moves all prices together (PriceInfo::tuned).
struct Tuned {
  double mean = 0.45, sigma = 0.25;  // of an engine nobody knows
};

struct EngineAxes {
  bool dp = true, tp = true, cp = true, pp = true, vpp = true;
  std::vector<int> zero{0, 1, 2, 3};
};

struct ForeignEngine {
  std::string name, file;
  std::string family;                       // engines that share most of their code deviate together
  std::map<std::string, double> campaigns;  // and how tuned each is thought to be
  Tuned tuned;                              // in a user's hands
  Habits habits;
  EngineAxes axes;
};

/// All of configs/engines, by name.
const std::vector<ForeignEngine>& shipped_engines();
const ForeignEngine& engine_named(const std::string& name);
/// Whose campaign it is; nullptr: no file says.
const ForeignEngine* engine_of(const std::string& campaign);
/// How tuned a campaign is thought to be before its runs are seen.
Tuned tuned_of(const std::string& campaign);
/// Throws ConfigError for a file that says what nobody reads, or too little.
ForeignEngine load_engine(const std::string& path);

}  // namespace isobar
