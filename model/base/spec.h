// Everything a user can say about one run, with its defaults: the YAML keys are these names
// (`net.embed_dim`).
//
// load_run_spec() reads a YAML file with inheritance and `--set` overrides and refuses what cannot be run,
// with a ConfigError naming file, key and mend. Plain data: rooms below take the part they need.
//
//   RunSpec spec = load_run_spec("configs/models/vit-384.yaml", {"train.global_batch=8"});
#pragma once
#include <algorithm>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/base/net_spec.h"

namespace isobar {

struct DataSpec {  // data:
  // directory of yearly HDF5 files, a CF NetCDF file, a Zarr store, or several of these with commas between,
  // joined on their times; of an mlp a table, or netCDF files on one grid with commas between
  // ("ocean.nc,atmosphere.nc"); "" = noise made in memory
  std::string train;
  std::string valid;                         // as train; "" = no validation
  std::string means, stds;                   // .npy statistics [1,C,1,1]; "" = computed from the training set
  std::vector<std::string> variables;        // a channel each, or "z@500,850"; {} = every field variable
  std::vector<std::string> inputs, targets;  // channels by name; {} = every one, and targets as inputs
  double train_fraction = 1.0;  // one NetCDF file split in time: first part trains, the rest validates
  int64_t dt = 1;               // target lies dt file steps after the input
  int64_t history = 1;          // states that the net reads, dt apart, the newest last
  int64_t limit_samples = 0;    // 0 = all
  int64_t limit_valid_samples = 0;
  int64_t workers = 0;   // loader threads; 0 = the training thread reads
  int64_t prefetch = 2;  // batches kept ready per worker
  bool shuffle = true;
  // What is taken of fields, in space, time and channels (data/selection.h)
  std::vector<double> region;  // degrees: north, west, south, east; {} = the whole grid
  int64_t stride = 1;          // every so many rows and columns
  std::vector<std::string> dates,
      valid_dates;                         // first and last, of ISO 8601 ("2019", "2019-03-01T06"); {} = all
  double time_step = 0;                    // hours: times that are multiples of it; 0 = all
  std::vector<std::string> static_fields;  // variables without a time axis, as further inputs
  std::string static_file;                 // where they and the mask are; "" = in data.train
  std::vector<std::string> forcings;       // computed inputs (data/forcings.h)
  // "" = nothing may be missing; fill: what is missing is the mean and counts; missing: it does not count;
  // else a variable without a time axis, and where that is 0 nothing counts
  std::string mask;
  /// Whether the loss and the errors are of some points alone: those that are there.
  bool masks() const { return !mask.empty() && mask != "fill"; }
  /// Whether there is something to validate on.
  bool validates() const { return !valid.empty() || train_fraction < 1 || !valid_dates.empty(); }
  // net.kind mlp alone: which rows of a table, or points of fields, are samples (data/table.h)
  std::string mask_mode = "both";       // ocean (ice below the least) | sea_ice (at least that) | both
  std::string ice_variable = "aice";    // the column or field that tells
  double min_ice_concentration = 0.15;  // the least, in that variable's unit
  double thin_fraction = 1.0;           // of the rows that are left, which a hash of their place chooses
  int64_t max_patterns = 0;             // at most so many of them; 0 = all
};

struct TrainSpec {  // train:
  int64_t global_batch = 16;
  int64_t steps = 128;  // optimizer steps
  std::string loss =
      "relative-l2";  // relative-l2 | mae | mse | huber | cross_entropy (formulas: backend/cpu/kernels.h)
  std::vector<double> loss_weights;  // mae, mse, huber: one factor a channel; {} = all 1
  // mae, mse, huber: weights by name, which make loss_weights of the channels once those are known
  // (inference/channel_loss.h): "z=3.5" of a variable or a channel, the others 1
  std::vector<std::string> variable_weights;
  std::string level_weights = "none";  // none | pressure: by level, with a mean of 1 over those of a variable
  // channels: as they are | mean: divided by their mean | aurora: of surface and upper air apart, see below
  std::string loss_weighting = "channels";
  double surface_weight = 0.25, upper_weight = 1, data_weight = 1;  // aurora's alpha, beta and gamma
  // mae, mse, huber: each row counts by the cosine of its latitude, with a mean of 1, as it does in the RMSE
  bool latitude_weights = false;
  // "tp>10=3": where a target is above 10, in its own unit, its error counts three times
  std::vector<std::string> intensity;
  // A roll-out (nets of images on one grid): so many steps of data.dt, each reading what the one before it
  // predicted.
  int64_t rollout = 1;
  // all: the loss is the mean over the steps, and its gradient goes back through all of them | last: the loss
  // is the last step's, and what it reads is taken as given (the push-forward of Brandstetter 2022)
  std::string rollout_gradient = "all";
  // Optimizer steps after which a roll-out, of one step at first, is one longer; 0 = train.rollout from the
  // start
  int64_t rollout_every = 0;
  // A replay buffer in host memory (Bodnar 2025, supplement): of each sample of the global batch so many
  // states to begin from, the oldest of which makes room for each new one; 0 = none. They are samples of the
  // data at first, and one in every replay_refresh steps; each step trains on one of them, drawn evenly, and
  // puts back what it predicted, until that is replay_max_lead steps of data.dt from the data:
  // replay_warmup_lead in the first replay_warmup_steps.
  int64_t replay_capacity = 0, replay_refresh = 10, replay_max_lead = 40;
  int64_t replay_warmup_steps = 0, replay_warmup_lead = 16;
  std::string prediction = "state";  // state | increment: what the net adds to the newest state it reads
  double huber_delta = 1.0;          // |error| where Huber's loss goes over from square to line
  std::string optimizer = "adam";    // adam | adamw | sgd
  double lr = 5e-4;
  double momentum = 0.9;  // sgd
  double beta1 = 0.9, beta2 = 0.95, adam_eps = 1e-8;
  double weight_decay = 0.0;
  // Parameter groups, by patterns of names: what does not decay (vectors: what has one dimension, as norms
  // and biases), and "pattern=factor" on the rate, of which the first that matches counts
  std::vector<std::string> no_decay, lr_factors;
  // Moving average of the weights, ema of itself and 1 - ema of each step's; 0 = none
  double ema = 0;
  bool ema_valid = false;  // validations, and so what they decide on, are of the average
  // fp16: the loss is multiplied by a scale that halves when a gradient overflows (the step is skipped) and
  // doubles after loss_scale_window steps without (Micikevicius 2018).
  double initial_loss_scale = 65536;
  double min_loss_scale = 1;         // an overflow at this scale ends the run
  int64_t loss_scale_window = 2000;  // steps
  double grad_clip = 0.0;  // largest global norm of the gradients (all ranks together); 0 = not clipped
  std::string lr_schedule = "cosine";  // cosine | constant | step | plateau (inference/schedule_lr.h)
  double lr_gamma = 0.1;               // step, plateau: the factor
  int64_t lr_step_size = 0;            // step: optimizer steps between two factors
  int64_t lr_patience = 10;            // plateau: validations without improvement that are let pass
  double lr_threshold = 1e-4;          // plateau: relative improvement that counts
  int64_t lr_cooldown = 0;             // plateau: validations after a factor that do not count
  double lr_min = 0;                   // plateau: never below; cosine: where it ends
  int64_t warmup = 0;                  // steps
  int64_t lr_steps = 0;                // cosine: its length, after which the rate stays at lr_min; 0 = steps
  // none | sqrt: lr * sqrt(global_batch / lr_base_batch) | linear: lr * global_batch / lr_base_batch
  std::string lr_scaling = "none";
  int64_t lr_base_batch = 16;
  // What is not trained: parameters whose names these patterns match (base/name_pattern.h). They have no
  // gradients and no moments. With adapters and none given: all but those.
  std::vector<std::string> freeze;
  // Low-rank adapters (Hu 2021) on the linears whose weights these patterns match: W + lora_alpha / lora_rank
  // B A; 0: none
  int64_t lora_rank = 0;
  double lora_alpha = 0;  // 0 = lora_rank
  std::vector<std::string> lora_targets;
  std::string init_from;  // run or checkpoint whose weights are the first ones; "" = those of the seed
  int64_t seed = 0;
  int64_t log_every = 1;         // steps
  int64_t valid_every = 0;       // steps; 0 = once at the end (if data.valid is set)
  int64_t checkpoint_every = 0;  // steps; 0 = never
  int64_t checkpoint_keep = 0;   // so many of the last are kept, and the best; 0 = all
  bool checkpoint_best = false;  // after a validation with the lowest loss so far: RUN/checkpoints/best
  // Validations in a row that may pass without a lower loss before the run ends (inference/early_stop.h); 0 =
  // any number
  int64_t early_stopping_patience = 0;
  int64_t jacobian_samples = 0;  // mlp: validation samples whose Jacobian each validation tracks; 0 = none
  int64_t jacobian_window = 0;   // the run ends when over so many validations its norm …
  double jacobian_tolerance = 1e-3;  // … stays within this share of itself; 0 = never
  int64_t min_steps = 0;             // neither ends a run before
  // No keys: of each channel the normalised target above which its error counts so many times; {} = none
  std::vector<double> intense_above, intense_weights;
  // No key: of the rows of fields, from the north, as their file says; {}: nobody knows (base/latitude.h)
  std::vector<double> latitudes;
};

struct LayoutSpec {  // layout:
  int64_t dp = 1, tp = 1, cp = 1, pp = 1, vpp = 1;
  std::string order = "tp-cp-dp-pp";  // first token varies fastest (Megatron)
  int64_t world() const { return dp * tp * cp * pp; }
};

struct PolicySpec {  // policy:
  // none (fp32) | tf32 (in matrix products) | bf16 | fp16 (scaled loss) | fp8 (bf16 with linears in fp8; gpt
  // and llama)
  std::string amp = "none";
  int64_t micro_batch = 0;          // samples of a rank at a time; 0 = global_batch / dp, on a GPU what fits
  std::string schedule = "1f1b";    // gpipe | 1f1b | interleaved | zb-h1
  int64_t zero = 0;                 // ZeRO stage
  bool offload_optimizer = false;   // moments live in host memory, and visit the device a bucket at a time
  bool offload_parameters = false;  // ZeRO 3: shares of the parameters live there, too
  std::string main_grads_dtype = "fp32";  // fp32 | bf16: what gradients are kept, added and reduced in
  double bucket_mb = 25;                  // MB of fp32 gradient per all-reduce
  bool overlap = true;                    // gradient all-reduce under backward; false = after it
  bool sequence_parallel = false;
  std::string cp_kind = "allgather";  // allgather | ring | ulysses
  std::string recompute = "none";     // none | selective (attention's core) | full (blocks, by the next two)
  std::string recompute_method =
      "uniform";                     // Megatron's: uniform (all blocks, N at a time from the input of the
                                     // first) | block (the first N of a stage chunk, one at a time)
  int64_t recompute_num_layers = 1;  // N
  std::string attention = "flash";   // flash (tiled) | unfused: the matrix of weights lies in memory
  // Graph nets: edges of a step are computed in so many pieces, of which nothing is kept: each is computed
  // again in the backward pass
  int64_t edge_chunks = 1;
  /// Whether some activations are thrown away and computed again.
  bool recomputes() const { return recompute != "none" || edge_chunks > 1; }
};

struct RunOptions {     // run:
  std::string out;      // directory of this run: result.jsonl, checkpoints/; "" = nothing written
  int64_t threads = 0;  // OpenMP threads per rank; 0 = cores / ranks on this host
  bool serial = false;  // every op on one lane
  std::string device =
      "cpu";  // cpu | cuda (one of the host's NVIDIA GPUs a rank) | auto (cuda where there is one)
  bool cuda_graphs = true;  // a step is captured once and replayed; false: its ops are launched one by one
  // cuda: algorithms of matrix products, the fastest by timing | heuristic: cuBLASLt's choice, the same every
  // time
  std::string gemm_choice = "timed";
  // cuda: bias gradients, and GELU where net.gelu is tanh, as part of a product where it can (heuristic), or
  // where that is faster (timed)
  bool fuse = true;
  // cuda: attention's sums in a fixed order; with gemm_choice: heuristic runs then repeat bit by bit. On A100
  // and H100 cuDNN keeps 2 bytes a pair of tokens for it in the workspace of attention backward.
  bool deterministic_attention = false;
  double hang_timeout = 300;  // seconds without progress after which a rank aborts the run
  bool tensorboard = false;   // curves as the run goes: run.out/tensorboard (engine/curves.h)
};

/// Whether a host has a core for each rank's communication thread beside those that compute. Where it has
/// not, a thread would only take turns with them: the compute thread then moves the transfers itself, between
/// ops and while it waits.
inline bool core_for_communication(int64_t threads, int64_t ranks_on_host, int64_t cores) {
  return (threads + 1) * ranks_on_host <= cores;
}

struct RunSpec {
  std::string file;  // where it came from, for messages
  NetSpec net;       // net:
  DataSpec data;
  TrainSpec train;
  LayoutSpec layout;
  PolicySpec policy;
  RunOptions run;

  int64_t micro_batch() const {
    return policy.micro_batch ? policy.micro_batch : train.global_batch / layout.dp;
  }
  int64_t micro_batches() const { return train.global_batch / (layout.dp * micro_batch()); }  // per step
  /// Steps of the roll-out that an optimizer step, from 0, trains.
  int64_t rollout_at(int64_t step) const {
    const int64_t every = train.rollout_every;
    return every > 0 ? std::min(train.rollout, 1 + step / every) : train.rollout;
  }
  /// Times among the channels that the net reads, oldest first.
  int64_t history() const { return net.own_history() > 0 ? net.own_history() : data.history; }
  /// Channels of each of them.
  int64_t time_channels() const { return (net.images()->in_channels - net.fixed_channels()) / history(); }
  /// Channels of a time that the net reads and does not predict: static fields, forcings.
  int64_t known_channels() const {
    const Images* i = net.images();
    return i && net.rolls_out() ? std::max<int64_t>(0, time_channels() - i->out_channels) : 0;
  }
  /// Whether predictions are read again, in the same step or a later one.
  bool reads_predictions() const { return train.rollout > 1 || train.replay_capacity > 0; }
  /// … or added to what is read: they have its channels.
  bool feeds_back() const { return reads_predictions() || train.prediction == "increment"; }
  /// Whether samples bring which points of their targets count (DataSpec::masks).
  bool masks_targets() const { return net.images() != nullptr && data.masks(); }
  /// Factor on a linear's adapter.
  double lora_scale() const {
    return train.lora_alpha > 0 ? train.lora_alpha / static_cast<double>(train.lora_rank) : 1.0;
  }
  /// Steps of a roll-out whose loss counts, and through which its gradient goes.
  int64_t learnt_steps() const { return train.rollout_gradient == "all" ? train.rollout : 1; }
};

/// Reads `path` (key `inherits: other.yaml` is taken first, relative to the file) and applies `key=value`
/// overrides. Relative data paths stay relative to the working directory. Throws ConfigError.
RunSpec load_run_spec(const std::string& path, const std::vector<std::string>& overrides = {});

/// Checks what can be checked without reading data: divisibility, ranges, known names. Throws ConfigError.
void validate(const RunSpec& spec);

/// Canonical JSON of a spec, all defaults filled in, keys sorted; from_json refuses unknown keys, those of
/// another kind of net among them.
nlohmann::json to_json(const RunSpec& spec);
RunSpec run_spec_from_json(const nlohmann::json& j, const std::string& file);
/// Of a file that Isobar wrote: older ones hold the keys of all kinds of nets, and those of others are
/// ignored.
RunSpec run_spec_from_record(nlohmann::json j, const std::string& file);
/// Kinds of nets whose runs have this key ("net.patch_size", "data.mask_mode").
std::vector<std::string> net_kinds_with(const std::string& key);

}  // namespace isobar
