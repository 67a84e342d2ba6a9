// The whole configuration of a run, with its defaults; the YAML keys are these names (`net.embed_dim`).
//
// load_run_spec() reads a YAML file with inheritance and `--set` overrides and refuses what cannot be run,
// with a ConfigError that names file, key and fix. Plain data: each module takes the part that it needs.
//
//   ValidSpec spec = load_run_spec("configs/models/vit-384.yaml", {"train.global_batch=8"});
#pragma once
#include <algorithm>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "model/base/spec/net_spec.h"
#include "model/base/spec/settings.h"

namespace isobar {

struct DataSpec {  // data:
  // directory of yearly HDF5 files, CF NetCDF file, Zarr store, or several of these separated by commas and
  // joined on their times. For an mlp: a table, or netCDF files on one grid ("ocean.nc,atmosphere.nc"). "" =
  // noise made in memory
  std::string train;
  std::string valid;                         // as train; "" = no validation
  std::string means, stds;                   // .npy statistics [1,C,1,1]; "" = computed from the training set
  std::vector<std::string> variables;        // one channel each, or "z@500,850"; {} = every field variable
  std::vector<std::string> inputs, targets;  // channels by name; {} = every one, and targets as inputs
  std::vector<std::string> channel_names;    // of HDF5 `fields`, in order; {} = as the file says
  double train_fraction = 1.0;  // one NetCDF file split in time: first part trains, the rest validates
  int64_t dt = 1;               // target lies dt file steps after the input
  int64_t history = 1;          // states that the net reads, dt apart, the newest last
  int64_t limit_samples = 0;    // 0 = all
  int64_t limit_valid_samples = 0;
  int64_t workers = 0;   // loader threads; 0 = the training thread reads
  int64_t prefetch = 2;  // batches kept ready per worker
  bool shuffle = true;
  // Selection of fields in space, time and channels (data/choice/selection.h)
  std::vector<double> region;  // degrees: north, west, south, east; {} = the whole grid
  int64_t stride = 1;          // every stride-th row and column
  std::vector<std::string> dates,
      valid_dates;                         // first and last, of ISO 8601 ("2019", "2019-03-01T06"); {} = all
  double time_step = 0;                    // hours: only times that are multiples of it; 0 = all
  std::vector<std::string> static_fields;  // variables without a time axis, as further inputs
  std::string static_file;                 // file of those and of the mask; "" = data.train
  std::vector<std::string> forcings;       // computed inputs (data/fields/forcings.h)
  // "" = no value may be missing; fill: missing values are the mean, and count; missing: they do not count;
  // else a variable without a time axis, and points where it is 0 do not count
  std::string mask;
  /// True if only some points count in the loss and the errors.
  bool masks() const { return !mask.empty() && mask != "fill"; }
  /// True if the run has validation data.
  bool validates() const { return !valid.empty() || train_fraction < 1 || !valid_dates.empty(); }
  // net.kind mlp only: which rows of a table, or points of fields, are samples (data/tables/table.h)
  MaskMode mask_mode = MaskMode::both;
  std::string ice_variable = "aice";    // the ice concentration's column or field
  double min_ice_concentration = 0.15;  // in that variable's unit
  double thin_fraction = 1.0;  // share of the selected rows that is kept, chosen by a hash of their place
  int64_t max_patterns = 0;    // upper bound on their number; 0 = all
};

struct TrainSpec {  // train:
  int64_t global_batch = 16;
  int64_t steps = 128;  // optimizer steps
  int64_t epochs =
      0;  // of the training data, from which steps follows (data/choice/sample_order.h); 0 = steps counts
  LossKind loss = LossKind::relative_l2;
  std::vector<double> loss_weights;  // mae, mse, huber: one factor a channel; {} = all 1
  // mae, mse, huber: weights by name, from which loss_weights follow once the channels are known
  // (inference/channel_loss.h): "z=3.5" for a variable or a channel; all others are 1
  std::vector<std::string> variable_weights;
  LevelWeights level_weights = LevelWeights::none;
  LossWeighting loss_weighting = LossWeighting::channels;
  double surface_weight = 0.25, upper_weight = 1, data_weight = 1;  // aurora's alpha, beta and gamma
  // mae, mse, huber: rows are weighted by the cosine of their latitude, with a mean of 1, as in the RMSE
  bool latitude_weights = false;
  // "tp>10=3": where a target is above 10, in its own unit, its error counts three times
  std::vector<std::string> intensity;
  // A roll-out (nets of images on one grid): this number of steps of data.dt, each of which reads the
  // prediction of the one before.
  int64_t rollout = 1;
  RolloutGradient rollout_gradient = RolloutGradient::all;
  // Optimizer steps after which the roll-out, which begins with one step, grows by one; 0 = train.rollout
  // from the start
  int64_t rollout_every = 0;
  // A replay buffer in host memory (Bodnar 2025, supplement): initial states for each sample of the global
  // batch; a new one replaces the oldest; 0 = none. Samples of the data fill it at first, and one enters
  // every replay_refresh steps. Each step trains on a state drawn uniformly and puts its prediction back,
  // until that is replay_max_lead steps of data.dt from the data (replay_warmup_lead during the first
  // replay_warmup_steps).
  int64_t replay_capacity = 0, replay_refresh = 10, replay_max_lead = 40;
  int64_t replay_warmup_steps = 0, replay_warmup_lead = 16;
  PredictionKind prediction = PredictionKind::state;
  double huber_delta = 1.0;  // |error| at which Huber's loss changes from square to linear
  OptimizerKind optimizer = OptimizerKind::adam;
  double lr = 5e-4;
  double momentum = 0.9;  // sgd
  double beta1 = 0.9, beta2 = 0.95, adam_eps = 1e-8;
  double weight_decay = 0.0;
  // Parameter groups, by patterns of names: parameters without weight decay (`vectors`: those of one
  // dimension, as norms and biases), and "pattern=factor" on the rate, of which the first match counts
  std::vector<std::string> no_decay, lr_factors;
  // Exponential moving average of the weights, ema * average + (1 - ema) * weights each step; 0 = none
  double ema = 0;
  bool ema_valid = false;  // validations, and decisions based on them, use the average
  // fp16: the loss is multiplied by a scale that halves when a gradient overflows (the step is skipped) and
  // doubles after loss_scale_window steps without (Micikevicius 2018).
  double initial_loss_scale = 65536;
  double min_loss_scale = 1;         // an overflow at this scale ends the run
  int64_t loss_scale_window = 2000;  // steps
  double grad_clip = 0.0;  // largest global norm of the gradients (all ranks together); 0 = not clipped
  LrSchedule lr_schedule = LrSchedule::cosine;
  double lr_gamma = 0.1;       // step, plateau: the factor
  int64_t lr_step_size = 0;    // step: optimizer steps between two factors
  int64_t lr_patience = 10;    // plateau: validations without improvement before a factor
  double lr_threshold = 1e-4;  // plateau: relative improvement that counts
  int64_t lr_cooldown = 0;     // plateau: validations after a factor that are not counted
  double lr_min = 0;           // plateau: lower bound; cosine: final rate
  int64_t warmup = 0;          // steps
  int64_t lr_steps = 0;        // cosine: its length, after which the rate stays at lr_min; 0 = train.steps
  LrScaling lr_scaling = LrScaling::none;
  int64_t lr_base_batch = 16;
  // Frozen parameters, by patterns of their names (base/names/name_pattern.h): they have neither gradients
  // nor moments. With adapters and no pattern, all but the adapters are frozen.
  std::vector<std::string> freeze;
  // Low-rank adapters (Hu 2021) on linears whose weights match these patterns: W + lora_alpha / lora_rank B
  // A; 0: none
  int64_t lora_rank = 0;
  double lora_alpha = 0;  // 0 = lora_rank
  std::vector<std::string> lora_targets;
  std::string init_from;  // run or checkpoint of the initial weights; "" = random, by the seed
  int64_t seed = 0;
  int64_t log_every = 1;                          // steps
  static constexpr int64_t kEpoch = kWordNumber;  // "epoch"
  int64_t valid_every = 0;       // steps, or kEpoch; 0 = once at the end (if data.valid is set)
  int64_t checkpoint_every = 0;  // steps, or kEpoch; 0 = never
  int64_t checkpoint_keep = 0;   // number of latest checkpoints kept, besides the best; 0 = all
  bool checkpoint_best = false;  // after a validation with the lowest loss so far: RUN/checkpoints/best
  // Validations in a row without a lower loss after which the run ends (inference/early_stop.h); 0 = never
  int64_t early_stopping_patience = 0;
  int64_t jacobian_samples = 0;  // mlp: validation samples whose Jacobian each validation tracks; 0 = none
  int64_t jacobian_window = 0;   // the run ends once the Jacobian's norm over this number of validations …
  double jacobian_tolerance = 1e-3;  // … stays within this relative range; 0 = never
  int64_t min_steps = 0;             // neither rule ends a run before
  /// True if something is counted in epochs.
  bool counts_epochs() const { return epochs > 0 || valid_every == kEpoch || checkpoint_every == kEpoch; }
  /// Steps between checkpoints, once train.epochs has become steps; those of the run where it is unknown.
  int64_t checkpoint_steps() const {
    return checkpoint_every != kEpoch ? checkpoint_every : epochs > 0 ? steps / epochs : steps;
  }
  // Not keys: of each channel the normalised target above which its error counts more, and its factor; {} =
  // none
  std::vector<double> intense_above, intense_weights;
  // Not a key: latitudes of the rows of fields, from the north, by their file; {}: unknown (base/latitude.h)
  std::vector<double> latitudes;
};

struct LayoutSpec {  // layout:
  int64_t dp = 1, tp = 1, cp = 1, pp = 1, vpp = 1;
  int64_t ep = 1;                     // ranks of dp * cp among which each block's experts are divided
  std::vector<int64_t> stages;        // parts of each pipeline chunk between the net's ends; empty: balanced
  std::string order = "tp-cp-dp-pp";  // first token varies fastest (Megatron)
  int64_t world() const { return dp * tp * cp * pp; }
};

struct PolicySpec {  // policy:
  Amp amp = Amp::none;
  int64_t micro_batch = 0;  // samples of a rank at a time; 0 = global_batch / dp, on a GPU what fits
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int64_t zero = 0;                 // ZeRO stage
  bool offload_optimizer = false;   // moments stay in host memory, and visit the device bucket by bucket
  bool offload_parameters = false;  // ZeRO 3: so do the shards of the parameters
  double offloaded_layers = 0;  // of a stage, whose activations wait in host memory (settings_of_others.h)
  GradientType main_grads_dtype = GradientType::fp32;
  double bucket_mb = 25;  // MB of fp32 gradient per all-reduce
  bool overlap = true;    // gradient all-reduce under backward; false = after it
  bool sequence_parallel = false;
  CpKind cp_kind = CpKind::allgather;
  Recompute recompute = Recompute::none;
  RecomputeMethod recompute_method = RecomputeMethod::uniform;
  int64_t recompute_num_layers = 1;  // RecomputeMethod's N
  AttentionKind attention = AttentionKind::flash;
  // Graph nets: a step's edges are computed in this number of chunks. Nothing of a chunk is kept: backward
  // recomputes it
  int64_t edge_chunks = 1;
  /// Groups of blocks are full recomputation's alone.
  void set_recompute(Recompute r) {
    recompute = r;
    if (r != Recompute::full) recompute_method = RecomputeMethod::uniform, recompute_num_layers = 1;
  }
  /// True if some activations are recomputed in backward.
  bool recomputes() const { return recompute != Recompute::none || edge_chunks > 1; }
};

struct RunOptions {  // run:
  std::string out;   // directory of this run: result.jsonl, checkpoints/; "" = writes nothing
  std::string
      command;  // trains by this program instead of the engine (bench/guest/command.h); "" = the engine
  std::string reads = "auto";  // readers of its output (bench/logs/readers.h)
  std::string engine;          // whose options {flags} in it are; "" = none
  std::string resume;          // {resume} in it, when a run is taken up
  std::string checkpoint;      // its checkpoints, a pattern in run.out; a run with none is not taken up
  bool by_settings = false;    // predicted from runs of other settings alone: no net is described
  int64_t threads = 0;         // OpenMP threads per rank; 0 = cores / ranks on this host
  bool serial = false;         // all ops on one lane
  RunDevice device = RunDevice::cpu;
  bool cuda_graphs = true;  // a step is captured once and replayed; false: its ops are launched one by one
  GemmChoice gemm_choice = GemmChoice::timed;
  AttentionChoice attention = AttentionChoice::automatic;  // cuda, on Hopper
  // cuda: bias gradients, and GELU where net.gelu is tanh, are computed inside a product: where cuBLASLt can
  // (heuristic), or where it is faster (timed)
  bool fuse = true;
  // cuda: attention sums in a fixed order; with gemm_choice: heuristic runs then repeat bit by bit. On A100
  // and H100 cuDNN's workspace of attention backward then takes 2 bytes for each pair of tokens.
  bool deterministic_attention = false;
  double hang_timeout = 300;  // seconds without progress after which a rank aborts the run
  bool tensorboard =
      false;  // curves while the run goes on: run.out/tensorboard (engine/observers/curves.cpp)
};

/// True if a host has a core for each rank's communication thread beside the compute threads. Otherwise a
/// thread would only take turns with them, so the compute thread moves the transfers itself, between ops and
/// while it waits.
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
  /// Roll-out steps that this optimizer step, counted from 0, trains.
  int64_t rollout_at(int64_t step) const {
    const int64_t every = train.rollout_every;
    return every > 0 ? std::min(train.rollout, 1 + step / every) : train.rollout;
  }
  /// Time steps among the net's input channels, oldest first.
  int64_t history() const { return net.own_history() > 0 ? net.own_history() : data.history; }
  /// Channels of one of these time steps.
  int64_t time_channels() const { return (net.images()->in_channels - net.fixed_channels()) / history(); }
  /// Channels of a time step that the net reads but does not predict: static fields, forcings.
  int64_t known_channels() const {
    const Images* i = net.images();
    return i && net.rolls_out() ? std::max<int64_t>(0, time_channels() - i->out_channels) : 0;
  }
  /// True if predictions become inputs, in the same step or a later one.
  bool reads_predictions() const { return train.rollout > 1 || train.replay_capacity > 0; }
  /// True if predictions become inputs or are added to them: both need the same channels.
  bool feeds_back() const { return reads_predictions() || train.prediction == PredictionKind::increment; }
  /// True if samples carry a mask of the target points that count (DataSpec::masks).
  bool masks_targets() const { return net.images() != nullptr && data.masks(); }
  /// Factor on a linear's adapter.
  double lora_scale() const {
    return train.lora_alpha > 0 ? train.lora_alpha / static_cast<double>(train.lora_rank) : 1.0;
  }
  /// Roll-out steps that have a loss, and through which its gradient flows.
  int64_t learnt_steps() const { return train.rollout_gradient == RolloutGradient::all ? train.rollout : 1; }
};

/// Checks what can be checked without reading data: divisibility, ranges, known names. Throws ConfigError.
void validate(const RunSpec& spec);

/// A spec that passed validate(), and stays as it is. What takes one does not check it again; a changed copy
/// is checked where it becomes one.
///
///   ValidSpec spec = load_run_spec(path);
///   RunSpec other = spec;
///   other.layout.dp = 2;
///   build_plan(other, 0, {});   // is checked here
class ValidSpec {
 public:
  ValidSpec(RunSpec spec) : spec_(std::move(spec)) {
    validate(spec_);
  }                                                  // NOLINT(google-explicit-constructor)
  operator const RunSpec&() const { return spec_; }  // NOLINT(google-explicit-constructor)
  const RunSpec* operator->() const { return &spec_; }
  const RunSpec& operator*() const { return spec_; }

 private:
  RunSpec spec_;
};

/// Reads `path` (a file under `inherits: other.yaml` first, relative to it) and applies `key=value`
/// overrides. Data paths stay relative to the working directory. Throws ConfigError.
ValidSpec load_run_spec(const std::string& path, const std::vector<std::string>& overrides = {});

/// Canonical JSON of a spec, with all defaults and sorted keys. from_json refuses unknown keys, also those of
/// another kind of net.
nlohmann::json to_json(const RunSpec& spec);
RunSpec run_spec_from_json(const nlohmann::json& j, const std::string& file);
/// Spec of a file that Isobar wrote: older ones hold the keys of all kinds of nets, so those of other kinds
/// are ignored.
RunSpec run_spec_from_record(nlohmann::json j, const std::string& file);
/// Kinds of nets whose runs have this key ("net.patch_size", "data.mask_mode").
std::vector<std::string> net_kinds_with(const std::string& key);

}  // namespace isobar
