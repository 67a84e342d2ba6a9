// Checks of a spec by itself, without reading data: the one error that a user gets names key and fix.
#include "model/base/validate.h"

#include <cmath>
#include <tuple>

#include "model/base/classes.h"
#include "model/base/named_factor.h"
#include "model/base/validate_parts.h"

namespace isobar {

// Checks of single values, whatever the other keys are.
void validate_values(const RunSpec& s) {
  const SpecCheck check{s};
  const auto str = [](int64_t v) { return std::to_string(v); };
  validate_net(s.net, check);

  const DataSpec& d = s.data;
  check.at_least(d.dt, 1, "data.dt");
  check.at_most(d.dt, 1 << 25, "data.dt");
  check.at_least(d.workers, 0, "data.workers");
  check.at_most(d.workers, 1024, "data.workers");
  check.at_least(d.prefetch, 1, "data.prefetch");
  check.at_most(d.prefetch, 1024, "data.prefetch");
  check.at_least(d.limit_samples, 0, "data.limit_samples");
  check.at_least(d.limit_valid_samples, 0, "data.limit_valid_samples");
  check.that(d.train_fraction > 0 && d.train_fraction <= 1, "data.train_fraction", "is not in (0, 1]",
             "e.g. 0.8");
  validate_selection(d, check);

  const LayoutSpec& l = s.layout;
  for (auto [value, key] : {std::pair{l.dp, "layout.dp"},
                            {l.tp, "layout.tp"},
                            {l.cp, "layout.cp"},
                            {l.pp, "layout.pp"},
                            {l.vpp, "layout.vpp"}}) {
    check.at_least(value, 1, key);
    check.at_most(value, kMostRanks, key);
  }
  const TrainSpec& t = s.train;
  check.at_least(t.global_batch, 1, "train.global_batch");
  check.at_most(t.global_batch, 1 << 24, "train.global_batch");
  check.at_least(t.steps, 1, "train.steps");
  check.at_most(t.steps, int64_t{1} << 36, "train.steps");
  check.that(t.momentum >= 0 && t.momentum < 1, "train.momentum", "is not in [0, 1)", "e.g. 0.9");
  for (const double w : t.loss_weights) check.zero_or_in_floats(w, "train.loss_weights", "give 0 or more");
  check.in_floats(t.huber_delta, "train.huber_delta", "e.g. 1");
  for (const std::string& f : t.variable_weights)
    check.that(named_factor(f).has_value(), "train.variable_weights", "'" + f + "' is no name with a weight",
               "give name=number, e.g. z=3.5");
  for (const std::string& f : t.intensity)
    check.that(named_threshold(f).has_value(), "train.intensity",
               "'" + f + "' is no name with a threshold and a weight",
               "give name>number=number, e.g. tp>10=3");
  for (const auto& [value, key] : {std::pair{t.surface_weight, "train.surface_weight"},
                                   {t.upper_weight, "train.upper_weight"},
                                   {t.data_weight, "train.data_weight"}})
    check.zero_or_in_floats(value, key, "give 0 or more");
  for (const std::string& f : t.lr_factors)
    check.that(named_factor(f).has_value(), "train.lr_factors", "'" + f + "' is no name with a factor",
               "give pattern=number, e.g. head=0.1");
  check.that(t.ema >= 0 && t.ema < 1, "train.ema", "is not in [0, 1)", "e.g. 0.999");
  check.at_least(t.checkpoint_keep, 0, "train.checkpoint_keep");
  check.at_least(t.lora_rank, 0, "train.lora_rank");
  check.at_most(t.lora_rank, kMostSize, "train.lora_rank");
  check.zero_or_in_floats(t.lora_alpha, "train.lora_alpha", "give 0 (the rank) or more");
  for (const auto& [patterns, key] : {std::pair{&t.freeze, "train.freeze"},
                                      {&t.lora_targets, "train.lora_targets"},
                                      {&t.no_decay, "train.no_decay"}})
    for (const std::string& p : *patterns)
      check.that(!p.empty(), key, "has an empty pattern", "name parameters, e.g. blocks.*.attn");
  check.that(t.lr_gamma > 0 && t.lr_gamma < 1, "train.lr_gamma", "is not in (0, 1)", "e.g. 0.1");
  check.at_least(t.lr_step_size, 0, "train.lr_step_size");
  check.at_least(t.lr_patience, 0, "train.lr_patience");
  check.at_least(t.lr_cooldown, 0, "train.lr_cooldown");
  check.that(t.lr_threshold >= 0 && t.lr_threshold < 1, "train.lr_threshold", "is not in [0, 1)",
             "e.g. 1e-4");
  check.zero_or_in_floats(t.lr_min, "train.lr_min", "give 0 or more");
  check.in_floats(t.lr, "train.lr", "e.g. 5e-4");
  check.that(t.lr_schedule != LrSchedule::cosine || t.lr_min <= t.lr, "train.lr_min", "is above train.lr",
             "a cosine falls to it: give less");
  check.that(t.beta1 >= 0 && t.beta1 < 1, "train.beta1", "is not in [0, 1)", "e.g. 0.9");
  check.that(t.beta2 >= 0 && t.beta2 < 1, "train.beta2", "is not in [0, 1)", "e.g. 0.95");
  check.in_floats(t.adam_eps, "train.adam_eps", "e.g. 1e-8");
  check.zero_or_in_floats(t.weight_decay, "train.weight_decay", "give 0 or more");
  check.zero_or_in_floats(t.grad_clip, "train.grad_clip", "0 clips nothing");
  check.in_floats(t.min_loss_scale, "train.min_loss_scale", "e.g. 1");
  check.that(t.initial_loss_scale > 0 && t.initial_loss_scale <= 0x1p100, "train.initial_loss_scale",
             "is not above 0 and up to 2^100", "e.g. 65536");
  check.at_least(t.loss_scale_window, 1, "train.loss_scale_window");
  check.at_least(t.warmup, 0, "train.warmup");
  check.at_least(t.lr_base_batch, 1, "train.lr_base_batch");
  check.at_least(t.lr_steps, 0, "train.lr_steps");
  check.that(t.lr_steps == 0 || t.lr_schedule == LrSchedule::cosine, "train.lr_steps",
             "is the length of a cosine, and train.lr_schedule is " + name_of(t.lr_schedule),
             "set that to cosine, or leave it out");
  check.at_least(t.seed, 0, "train.seed");
  check.at_least(t.early_stopping_patience, 0, "train.early_stopping_patience");
  check.at_least(t.jacobian_samples, 0, "train.jacobian_samples");
  check.at_least(t.jacobian_window, 0, "train.jacobian_window");
  check.at_most(t.jacobian_window, 1 << 20, "train.jacobian_window");
  check.that(t.jacobian_window != 1, "train.jacobian_window", "is 1: one norm never changes", "e.g. 5");
  check.that(t.jacobian_tolerance > 0 && t.jacobian_tolerance < 1, "train.jacobian_tolerance",
             "is not in (0, 1)", "e.g. 1e-3");
  check.at_least(t.min_steps, 0, "train.min_steps");
  check.at_least(t.log_every, 1, "train.log_every");
  check.at_least(t.valid_every, 0, "train.valid_every");
  check.at_least(t.checkpoint_every, 0, "train.checkpoint_every");

  const PolicySpec& p = s.policy;
  check.at_least(p.recompute_num_layers, 1, "policy.recompute_num_layers");
  check.at_least(p.edge_chunks, 1, "policy.edge_chunks");
  check.at_most(p.edge_chunks, 1024, "policy.edge_chunks");
  check.at_least(p.micro_batch, 0, "policy.micro_batch");
  check.that(p.zero >= 0 && p.zero <= 3, "policy.zero", str(p.zero) + " is no ZeRO stage", "use 0 to 3");
  check.that(p.bucket_mb > 0 && p.bucket_mb <= 1e6, "policy.bucket_mb", "is not above 0 and up to 1e6",
             "e.g. 25");
  check.at_least(s.run.threads, 0, "run.threads");
  check.at_most(s.run.threads, 1 << 16, "run.threads");
  check.that(!s.run.deterministic_attention || s.run.device != RunDevice::cpu, "run.deterministic_attention",
             "is for GPUs: the CPU's sums always go by a fixed order",
             "leave it out, or set run.device: cuda");
  check.that(!s.run.tensorboard || !s.run.out.empty(), "run.tensorboard",
             "writes into run.out, which is not set", "set run.out, or leave it out");
  check.that(s.run.hang_timeout > 0 && s.run.hang_timeout <= 1e9, "run.hang_timeout",
             "is not above 0 and up to 1e9", "give seconds, e.g. 300");
}

void validate_replay(const RunSpec& s, const SpecCheck& check) {
  const TrainSpec& t = s.train;
  const TrainSpec usual;
  const bool replays = t.replay_capacity > 0;
  check.at_least(t.replay_capacity, 0, "train.replay_capacity");
  check.at_most(t.replay_capacity, 1 << 20, "train.replay_capacity");
  const auto only_with = [&](int64_t given, int64_t otherwise, const char* key) {
    check.that(replays || given == otherwise, key, "is of a replay buffer, and train.replay_capacity is 0",
               "set train.replay_capacity, e.g. 200, or leave it out");
  };
  only_with(t.replay_refresh, usual.replay_refresh, "train.replay_refresh");
  only_with(t.replay_max_lead, usual.replay_max_lead, "train.replay_max_lead");
  only_with(t.replay_warmup_steps, usual.replay_warmup_steps, "train.replay_warmup_steps");
  only_with(t.replay_warmup_lead, usual.replay_warmup_lead, "train.replay_warmup_lead");
  if (!replays) return;
  check.at_least(t.replay_refresh, 1, "train.replay_refresh");
  check.at_least(t.replay_max_lead, 2, "train.replay_max_lead");
  check.at_least(t.replay_warmup_steps, 0, "train.replay_warmup_steps");
  check.at_least(t.replay_warmup_lead, 1, "train.replay_warmup_lead");
  check.that(t.replay_warmup_steps == 0 || t.replay_warmup_lead <= t.replay_max_lead,
             "train.replay_warmup_lead", "is longer than train.replay_max_lead", "give a shorter one");
  check.that(t.rollout == 1, "train.replay_capacity",
             "puts each step's prediction back, and train.rollout is " + std::to_string(t.rollout),
             "set train.rollout to 1, or leave the buffer out");
}

// Every input time step has the same channels, and the net predicts the first of them.
void validate_rollout(const RunSpec& s, const SpecCheck& check) {
  if (s.net.images() && s.net.own_history() == 0) {
    check.at_least(s.data.history, 1, "data.history");
    check.divides(s.data.history, s.net.images()->in_channels, "data.history", "net.in_channels");
  }
  if (!s.net.rolls_out()) return;
  const Images& n = *s.net.images();
  const TrainSpec& t = s.train;
  check.at_least(t.rollout, 1, "train.rollout");
  check.at_most(t.rollout, 256, "train.rollout");
  check.that(t.rollout > 1 || t.rollout_gradient == RolloutGradient::all, "train.rollout_gradient",
             "is for roll-outs, and train.rollout is 1", "set train.rollout to 2 or more, or leave it out");
  check.at_least(t.rollout_every, 0, "train.rollout_every");
  check.that(t.rollout_every == 0 || (t.rollout > 1 && t.rollout_gradient == RolloutGradient::all),
             "train.rollout_every", "lengthens roll-outs whose gradient goes through all steps",
             "set train.rollout to 2 or more and train.rollout_gradient to all, or leave it out");
  check.that((t.rollout - 1) * std::min(t.rollout_every, t.steps) < t.steps, "train.rollout_every",
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

void validate(const RunSpec& s) {
  validate_values(s);
  const SpecCheck check{s};
  const auto str = [](int64_t v) { return std::to_string(v); };
  validate_net_together(s.net, check);
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
  const bool features = s.net.kind() == MlpSpec::kKind;
  check.that(weights == 0 || weights == outputs, "train.loss_weights",
             "has " + str(weights) + " numbers, net.out_" + (features ? "features" : "channels") + " is " +
                 str(outputs),
             features ? "give one a feature" : "give one a channel");
  validate_rollout(s, check);
  check.that(t.no_decay.empty() || t.weight_decay > 0, "train.no_decay",
             "says what does not decay, and train.weight_decay is 0",
             "set train.weight_decay, or leave it out");
  check.that(!t.ema_valid || t.ema > 0, "train.ema_valid", "is of an average, and train.ema is 0",
             "set train.ema, e.g. 0.999");
  check.that(t.checkpoint_keep == 0 || t.checkpoint_every > 0 || t.checkpoint_best, "train.checkpoint_keep",
             "says how many checkpoints stay, and train.checkpoint_every is 0",
             "set train.checkpoint_every, or leave it out");
  check.that(t.lora_rank > 0 || (t.lora_targets.empty() && t.lora_alpha == 0),
             t.lora_targets.empty() ? "train.lora_alpha" : "train.lora_targets",
             "is of adapters, and train.lora_rank is 0", "set train.lora_rank, e.g. 8");
  check.that(t.lora_rank == 0 || !t.lora_targets.empty(), "train.lora_targets",
             "is empty: no linear has an adapter of train.lora_rank", "name some, e.g. [blocks.*.attn]");
  check.at_least(t.lr_step_size, t.lr_schedule == LrSchedule::step ? 1 : 0, "train.lr_step_size");
  const bool validates = t.valid_every > 0 && s.data.validates();
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
  check.that(p.amp != Amp::fp8 || s.net.words(), "policy.amp", "fp8 is for net.kind gpt and llama",
             "use one of none, tf32, bf16, fp16");
  check.that(p.attention != AttentionKind::unfused || s.net.words(), "policy.attention",
             "unfused is for net.kind gpt and llama", "use flash");
  check.that(p.attention != AttentionKind::unfused || l.cp == 1, "policy.attention",
             "unfused attention cannot be cut by layout.cp", "use flash, or set layout.cp to 1");
  if (p.micro_batch)
    check.divides(p.micro_batch, t.global_batch / l.dp, "policy.micro_batch", "the batch of one dp rank");
  refuse_astronomical(s, check);
}

}  // namespace isobar
