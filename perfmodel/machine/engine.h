// Training engines, each a small file of configs/engines: what it overlaps, which axes it has, how tuned it
// is, and its campaigns of runs. Engines change policies and prices, never counts.
//
//   const ForeignEngine& e = engine_named("nemo");      // ConfigError lists the known ones
//   e.habits.overlaps_tensor; e.tuned.mean              // 0: research code, 1: a tuned submission
#pragma once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace isobar::perf {

/// Memory that an engine keeps by its code; 0: priced by runs (memory_model.h).
struct MemoryHabits {
  double fp16_gradients = 0, bf16_gradients = 0;  // bytes of a parameter, in runs of that precision
  double optimizer = 0;                           // bytes of a parameter and shard, without the weights
  double buckets = 0;                             // bytes, of reductions
  bool stage_copies = false;                      // pipelines keep copies of what a stage receives and sends
};

/// An engine's habits that the counts depend on (step_model.h).
struct Habits {
  bool overlaps_tensor = false;    // tensor-parallel traffic under the products that feed or need it
  bool overlaps_pipeline = false;  // transfers of interleaved schedules under other chunks
  bool overlaps_gradients = true;  // reduction under backward, gather under forward
  bool sequence_parallel = false;  // with tensor parallelism, unless a table says otherwise
  bool autocast = false;           // the residual stream stays in fp32
  double tensor_traffic = 1;       // bytes relative to one 2-byte reduction each way
  bool compiled = false;           // pointwise work is compiled into few kernels, unless a table says
                                   // otherwise
  bool hopper_attention = false;   // flash kernels of the chip's generation (cuDNN's), not FlashAttention-2
  bool device_memory = false;      // memory is read from the driver: includes context and communicators
  bool selective_operators =
      false;                       // selective recomputation keeps every second product's result (torchtitan)
  bool eager_loss = false;         // fp32 logits and their gradient are in memory, not fused
  bool fully_sharded = false;      // PyTorch's fully_shard, counted step by step (fsdp_memory.h)
  bool ends_in_root = false;       // … embedding and head are one unit, the root's
  bool norms_apart = false;        // norms are fp32 operations that keep their input, unless compiled
  bool parameter_gathers = false;  // ZeRO 3 gathers and reduces every parameter on its own (DeepSpeed)
  bool own_collectives = false;    // hand-written: they copy operands, and break compiled graphs
  MemoryHabits memory;
};

/// An engine's tuning: a latent of each campaign, from 0 (research code) to 1 (an MLPerf submission), that
/// moves all prices together (PriceInfo::tuned).
struct Tuned {
  double mean = 0.45, sigma = 0.25;  // of an unknown engine
};

struct EngineAxes {
  bool dp = true, tp = true, cp = true, pp = true, vpp = true, ep = true;
  bool offload = true;  // activations of whole layers in host memory
  std::vector<int> zero{0, 1, 2, 3};
};

/// Prices of an engine that runs one kernel an op: its steps are counted from plans, as Isobar's are
/// (engine_prices.h). `accelerators` and `cores` have names of coefficients; `passes` and `launches`: bytes
/// and ops of its kernels relative to those of Isobar's plans.
struct EngineKernels {
  std::map<std::string, double> accelerators, cores;
  std::map<int64_t, std::array<double, 2>> heads;  // of attention: share of the peak, forward and backward
  double spread = 0.15;                            // log sigma of each
};

struct ForeignEngine {
  std::string name, file;
  std::vector<std::string> called;          // its names in a table's `framework`
  std::string family;                       // engines with mostly shared code deviate together
  std::map<std::string, double> campaigns;  // and their assumed tuning
  Tuned tuned;                              // for a user
  Habits habits;
  EngineAxes axes;
  std::optional<EngineKernels> kernels;  // none: priced by published runs
};

/// All of configs/engines, by name.
const std::vector<ForeignEngine>& shipped_engines();
const ForeignEngine& engine_named(const std::string& name);
/// The campaign's engine; nullptr: unknown.
const ForeignEngine* engine_of(const std::string& campaign);
/// The engine of which a `called` name's words are all in a table's `framework`: the longest; nullptr: none,
/// or two are as long.
const ForeignEngine* engine_called(const std::string& framework);
std::vector<std::string> engine_names();
/// A campaign's assumed tuning before its runs are seen: its own, or a user's of the engine (nullptr:
/// unknown).
Tuned tuned_of(const std::string& campaign, const ForeignEngine* engine);
/// Throws ConfigError for a file with unknown or missing keys.
ForeignEngine load_engine(const std::string& path);

}  // namespace isobar::perf
