// Checks of a spec by itself, without reading data: the one error that a user gets names key and fix.
#include "model/base/spec/validate.h"

#include <algorithm>
#include <utility>

#include "model/base/classes.h"
#include "model/base/spec/spec_rows.h"
#include "model/base/spec/validate_parts.h"

namespace isobar {

namespace {

// Rules that the rows of single keys do not have
void validate_train(const TrainSpec& t, const SpecCheck& check) {
  check.that(t.lr_schedule != LrSchedule::cosine || t.lr_min <= t.lr, "train.lr_min", "is above train.lr",
             "a cosine falls to it: give less");
  check.that(t.lr_steps == 0 || t.lr_schedule == LrSchedule::cosine, "train.lr_steps",
             "is the length of a cosine, and train.lr_schedule is " + name_of(t.lr_schedule),
             "set that to cosine, or leave it out");
  check.that(t.initial_loss_scale <= 0x1p100, "train.initial_loss_scale", "is above 2^100", "e.g. 65536");
  check.that(t.jacobian_window != 1, "train.jacobian_window", "is 1: one norm never changes", "e.g. 5");
}

// Epochs need training data of a length; programs of run.command read their own.
void validate_epochs(const RunSpec& s, const SpecCheck& check) {
  const TrainSpec& t = s.train;
  if (!t.counts_epochs() || !s.run.command.empty()) return;
  const char* key = t.epochs > 0                         ? "train.epochs"
                    : t.valid_every == TrainSpec::kEpoch ? "train.valid_every"
                                                         : "train.checkpoint_every";
  check.that(!s.data.train.empty() || s.data.limit_samples > 0, key,
             "counts epochs, and data.train is empty: noise has no length",
             "set data.train, or a length by data.limit_samples, or count in steps");
  check.that(t.replay_capacity == 0, key,
             "counts epochs, and a replay buffer (train.replay_capacity) has none", "count in steps");
}

void validate_run(const RunOptions& r, const SpecCheck& check) {
  check.that(!r.deterministic_attention || r.device != RunDevice::cpu, "run.deterministic_attention",
             "is for GPUs: the CPU's sums always go by a fixed order",
             "leave it out, or set run.device: cuda");
}

void validate_replay(const RunSpec& s, const SpecCheck& check) {
  const TrainSpec& t = s.train;
  const TrainSpec usual;
  const bool replays = t.replay_capacity > 0;
  const auto only_with = [&](int64_t given, int64_t otherwise, const char* key) {
    check.that(replays || given == otherwise, key, "is of a replay buffer, and train.replay_capacity is 0",
               "set train.replay_capacity, e.g. 200, or leave it out");
  };
  only_with(t.replay_refresh, usual.replay_refresh, "train.replay_refresh");
  only_with(t.replay_max_lead, usual.replay_max_lead, "train.replay_max_lead");
  only_with(t.replay_warmup_steps, usual.replay_warmup_steps, "train.replay_warmup_steps");
  only_with(t.replay_warmup_lead, usual.replay_warmup_lead, "train.replay_warmup_lead");
  if (!replays) return;
  check.that(t.replay_warmup_steps == 0 || t.replay_warmup_lead <= t.replay_max_lead,
             "train.replay_warmup_lead", "is longer than train.replay_max_lead", "give a shorter one");
  check.that(t.rollout == 1, "train.replay_capacity",
             "puts each step's prediction back, and train.rollout is " + std::to_string(t.rollout),
             "set train.rollout to 1, or leave the buffer out");
}

// Every input time step has the same channels, and the net predicts the first of them.
void validate_rollout(const RunSpec& s, const SpecCheck& check) {
  if (s.net.images() && s.net.own_history() == 0)
    check.divides(s.data.history, s.net.images()->in_channels, "data.history", "net.in_channels");
  if (!s.net.rolls_out()) return;
  const Images& n = *s.net.images();
  const TrainSpec& t = s.train;
  check.that(t.rollout > 1 || t.rollout_gradient == RolloutGradient::all, "train.rollout_gradient",
             "is for roll-outs, and train.rollout is 1", "set train.rollout to 2 or more, or leave it out");
  check.that(t.rollout_every == 0 || (t.rollout > 1 && t.rollout_gradient == RolloutGradient::all),
             "train.rollout_every", "lengthens roll-outs whose gradient goes through all steps",
             "set train.rollout to 2 or more and train.rollout_gradient to all, or leave it out");
  check.that(t.epochs > 0 || (t.rollout - 1) * std::min(t.rollout_every, t.steps) < t.steps,
             "train.rollout_every",
             "is so large that the run ends before its roll-outs have train.rollout steps",
             "give less than train.steps / (train.rollout - 1)");
  check.that(s.net.fixed_channels() == 0 || t.prediction == PredictionKind::state, "train.prediction",
             "is increment, and " + s.net.kind() + " predicts states", "leave it out");
  validate_replay(s, check);
  const int64_t of_a_time = s.time_channels();
  if (!s.feeds_back()) return;
  check.that(n.out_channels <= of_a_time, "net.out_channels",
             "is " + std::to_string(n.out_channels) + ", and the net reads " + std::to_string(of_a_time) +
                 " channels of each time: what it predicts it has to read again",
             "set net.in_channels to data.history times what a time has");
}

}  // namespace

void validate_values(const RunSpec& s) {
  const SpecCheck check{s};
  RunSpec copy = s;
  for (const KeyRow& row : key_rows(copy)) row.check(s.file);
  s.net.visit([&](const auto& n) { n.check_lists(check); });
  validate_selection(s.data, check);
  validate_train(s.train, check);
  validate_run(s.run, check);
}

void validate(const RunSpec& s) {
  validate_values(s);
  const SpecCheck check{s};
  const auto str = [](int64_t v) { return std::to_string(v); };
  s.net.visit([&](const auto& n) { n.check(check); });
  validate_channels(s, check);
  const LayoutSpec& l = s.layout;
  const double ranks = static_cast<double>(l.dp) * static_cast<double>(l.tp) * static_cast<double>(l.cp) *
                       static_cast<double>(l.pp);
  check.that(ranks <= static_cast<double>(kMostRanks), "layout",
             "dp * tp * cp * pp = " + str(l.dp) + " * " + str(l.tp) + " * " + str(l.cp) + " * " + str(l.pp) +
                 " are more ranks than " + str(kMostRanks),
             "make one of them smaller");
  const TrainSpec& t = s.train;
  const auto weights = static_cast<int64_t>(t.loss_weights.size());
  check.that(weights == 0 || t.loss != LossKind::relative_l2, "train.loss_weights",
             "are not for relative-l2, a quotient of norms over all channels", "use mae, mse or huber");
  check.that(weights == 0 || t.loss != LossKind::cross_entropy, "train.loss_weights",
             "are not for cross_entropy, which has one target", "use mae, mse or huber");
  const bool named = !t.variable_weights.empty() || t.level_weights != LevelWeights::none ||
                     t.loss_weighting != LossWeighting::channels,
             by_name = named || !t.intensity.empty();
  check.that(!by_name || weights == 0 || !named, "train.loss_weights",
             "are given beside weights by name, which make them", "leave out one of the two");
  check.that(!by_name || (t.loss != LossKind::relative_l2 && t.loss != LossKind::cross_entropy),
             named ? "train.variable_weights" : "train.intensity",
             "and the like are not for " + name_of(t.loss), "use mae, mse or huber");
  check.that(
      !t.latitude_weights || (s.net.images() && t.loss != LossKind::relative_l2), "train.latitude_weights",
      s.net.images() ? "are not for relative-l2, a quotient of norms" : "are for fields, which have rows",
      s.net.images() ? "use mae, mse or huber" : "leave it out");
  check.that(t.loss_weighting == LossWeighting::aurora ||
                 (t.surface_weight == 0.25 && t.upper_weight == 1 && t.data_weight == 1),
             "train.surface_weight", "and the like are of train.loss_weighting: aurora",
             "set that, or leave them out");
  check.that(!s.net.images() || t.loss != LossKind::cross_entropy, "train.loss",
             "cross_entropy is for classes, and net.kind " + s.net.kind() + " predicts fields",
             "use relative-l2, mae, mse or huber, or net.kind: mlp");
  check.that(!classifies(s) || s.net.outputs() >= 2, "net.out_features",
             "is 1, and cross_entropy tells classes apart", "give the number of classes, 2 or more");
  const int64_t outputs = s.net.outputs();
  const bool features = s.net.reads_rows();
  check.that(weights == 0 || weights == outputs, "train.loss_weights",
             "has " + str(weights) + " numbers, net.out_" + (features ? "features" : "channels") + " is " +
                 str(outputs),
             features ? "give one a feature" : "give one a channel");
  validate_rollout(s, check);
  validate_epochs(s, check);
  check.that(t.no_decay.empty() || t.weight_decay > 0, "train.no_decay",
             "says what does not decay, and train.weight_decay is 0",
             "set train.weight_decay, or leave it out");
  check.that(!t.ema_valid || t.ema > 0, "train.ema_valid", "is of an average, and train.ema is 0",
             "set train.ema, e.g. 0.999");
  check.that(t.checkpoint_keep == 0 || t.checkpoint_every != 0 || t.checkpoint_best, "train.checkpoint_keep",
             "says how many checkpoints stay, and train.checkpoint_every is 0",
             "set train.checkpoint_every, or leave it out");
  check.that(t.lora_rank > 0 || (t.lora_targets.empty() && t.lora_alpha == 0),
             t.lora_targets.empty() ? "train.lora_alpha" : "train.lora_targets",
             "is of adapters, and train.lora_rank is 0", "set train.lora_rank, e.g. 8");
  check.that(t.lora_rank == 0 || !t.lora_targets.empty(), "train.lora_targets",
             "is empty: no linear has an adapter of train.lora_rank", "name some, e.g. [blocks.*.attn]");
  if (t.lr_schedule == LrSchedule::step) check.at_least(t.lr_step_size, 1, "train.lr_step_size");
  const bool validates = t.valid_every != 0 && s.data.validates();
  check.that(t.lr_schedule != LrSchedule::plateau || validates, "train.lr_schedule",
             "plateau watches the validation loss, and this run has none before its end",
             "set train.valid_every, and data.valid or data.train_fraction");
  for (const auto& [set, key] : {std::pair{t.early_stopping_patience > 0, "train.early_stopping_patience"},
                                 {t.jacobian_samples > 0, "train.jacobian_samples"},
                                 {t.checkpoint_best, "train.checkpoint_best"}})
    check.that(!set || validates, key, "looks at validations, and this run has none before its end",
               "set train.valid_every, and data.valid or data.train_fraction");
  check.that(t.jacobian_samples == 0 || features, "train.jacobian_samples",
             "tracks whole Jacobians, which only an mlp's are small enough for",
             "take rows of a trained net's: isobar jacobian");
  check.that(t.jacobian_window == 0 || t.jacobian_samples > 0, "train.jacobian_window",
             "watches a Jacobian that is not tracked", "set train.jacobian_samples, e.g. 100");
  check.that(t.min_steps == 0 || t.early_stopping_patience > 0 || t.jacobian_window > 0, "train.min_steps",
             "is given, but nothing ends this run early",
             "set train.early_stopping_patience or train.jacobian_window");
  check.that(t.min_loss_scale <= t.initial_loss_scale, "train.min_loss_scale",
             "is above train.initial_loss_scale", "e.g. 1");
  check.that(t.global_batch % l.dp == 0, "train.global_batch",
             str(t.global_batch) + " cannot be shared by layout.dp = " + str(l.dp),
             "use a multiple, e.g. " + str((t.global_batch / l.dp + 1) * l.dp));

  const PolicySpec& p = s.policy;
  check.that(
      p.recompute == Recompute::full ||
          (p.recompute_method == RecomputeMethod::uniform && p.recompute_num_layers == 1),
      p.recompute_num_layers == 1 ? "policy.recompute_method" : "policy.recompute_num_layers",
      "says which blocks full recomputation throws away, and policy.recompute is " + name_of(p.recompute),
      "leave it out, or set policy.recompute to full");
  check.that(!p.offload_parameters || p.zero == 3, "policy.offload_parameters",
             "is of ZeRO's stage 3, which gathers parameters before each use", "set policy.zero to 3");
  check.that(p.amp < Amp::fp8 || s.net.words(), "policy.amp",
             name_of(p.amp) + " is for net.kind gpt and llama", "use one of none, tf32, bf16, fp16");
  const int64_t of_stage = (s.net.blocks() + l.pp - 1) / l.pp;
  check.that(p.offloaded_layers <= static_cast<double>(of_stage), "policy.offloaded_layers",
             "is above the layers of a stage, " + str(of_stage), "use at most " + str(of_stage));
  check.that(p.attention != AttentionKind::unfused || s.net.words(), "policy.attention",
             "unfused is for net.kind gpt and llama", "use flash");
  check.that(p.attention != AttentionKind::unfused || s.net.kind() != LlamaSpec::kKind ||
                 s.net.llama().window() == 0,
             "policy.attention", "unfused attention is to all tokens, and net.sliding_window is set",
             "use flash");
  check.that(p.attention != AttentionKind::unfused || l.cp == 1, "policy.attention",
             "unfused attention cannot be cut by layout.cp", "use flash, or set layout.cp to 1");
  if (p.micro_batch)
    check.divides(p.micro_batch, t.global_batch / l.dp, "policy.micro_batch", "the batch of one dp rank");
  refuse_astronomical(s, check);
}

}  // namespace isobar
