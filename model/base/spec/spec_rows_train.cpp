// Keys of training: loss, roll-outs, optimizer, rates, checkpoints and ends.
#include "model/base/names/named_factor.h"
#include "model/base/spec/spec_rows.h"

namespace isobar {
namespace {

constexpr Allowed kWeight = zero_or_positive("give 0 or more");
constexpr Allowed kPatterns = texts([](const std::string& p) { return !p.empty(); }, "is an empty pattern",
                                    "name parameters, e.g. blocks.*.attn");
bool is_factor(const std::string& text) {
  return named_factor(text).has_value();
}
bool is_threshold(const std::string& text) {
  return named_threshold(text).has_value();
}

void add_loss_rows(KeyRows& to, TrainSpec& t) {
  to.insert(to.end(),
            {{"train.loss", t.loss, "Loss; cross_entropy is for an mlp's classes."},
             {"train.huber_delta", t.huber_delta, positive("e.g. 1"),
              "Error at which Huber's loss turns from square to linear."},
             {"train.loss_weights", t.loss_weights, kWeight,
              "mae, mse, huber: a factor a channel or output. Empty: 1."},
             {"train.variable_weights", t.variable_weights,
              texts(is_factor, "is no name with a weight", "give name=number, e.g. z=3.5"),
              "mae, mse, huber: factors by variable or channel, as `z=3.5`; others 1."},
             {"train.level_weights", t.level_weights, "Weight a variable's levels by pressure, with mean 1."},
             {"train.loss_weighting", t.loss_weighting,
              "Weights as given, divided by their mean, or Aurora's surface and upper-air terms."},
             {"train.surface_weight", t.surface_weight, kWeight, "Aurora's alpha (loss_weighting aurora)."},
             {"train.upper_weight", t.upper_weight, kWeight, "Aurora's beta (loss_weighting aurora)."},
             {"train.data_weight", t.data_weight, kWeight, "Aurora's gamma (loss_weighting aurora)."},
             {"train.intensity", t.intensity,
              texts(is_threshold, "is no name with a threshold and a weight",
                    "give name>number=number, e.g. tp>10=3"),
              "Factors on errors where the target exceeds a value in its unit, as `tp>10=3`."},
             {"train.latitude_weights", t.latitude_weights,
              "mae, mse, huber: weight rows by the cosine of latitude, with mean 1."}});
}

void add_rollout_rows(KeyRows& to, TrainSpec& t) {
  to.insert(
      to.end(),
      {{"train.rollout", t.rollout, from_to(1, 256),
        "Steps of data.dt, each reading the prediction before it."},
       {"train.rollout_every", t.rollout_every, at_least(0),
        "Optimizer steps after which a roll-out of one step grows by one; 0: full length from the start."},
       {"train.rollout_gradient", t.rollout_gradient,
        "Gradient through all steps, or through the last alone (push-forward)."},
       {"train.prediction", t.prediction,
        "The net predicts the next state, or its difference from the newest one read."},
       {"train.replay_capacity", t.replay_capacity, from_to(0, 1 << 20),
        "States of a replay buffer for each sample of the global batch; 0: none."},
       {"train.replay_refresh", t.replay_refresh, at_least(1),
        "Optimizer steps between fresh states of the data in the replay buffer."},
       {"train.replay_max_lead", t.replay_max_lead, at_least(2),
        "Longest roll-out from the data, in steps of data.dt."},
       {"train.replay_warmup_steps", t.replay_warmup_steps, at_least(0),
        "First optimizer steps, with the shorter limit replay_warmup_lead."},
       {"train.replay_warmup_lead", t.replay_warmup_lead, at_least(1),
        "Longest roll-out during replay_warmup_steps."}});
}

void add_optimizer_rows(KeyRows& to, TrainSpec& t) {
  to.insert(to.end(),
            {{"train.optimizer", t.optimizer, "Optimizer."},
             {"train.lr", t.lr, positive("e.g. 5e-4"), "Learning rate."},
             {"train.momentum", t.momentum, within("[)", 0, 1, "e.g. 0.9"), "Momentum of sgd."},
             {"train.beta1", t.beta1, within("[)", 0, 1, "e.g. 0.9"), "Adam's decay of the first moment."},
             {"train.beta2", t.beta2, within("[)", 0, 1, "e.g. 0.95"), "Adam's decay of the second moment."},
             {"train.adam_eps", t.adam_eps, positive("e.g. 1e-8"), "Added to the root of the second moment."},
             {"train.weight_decay", t.weight_decay, kWeight, "Weight decay."},
             {"train.no_decay", t.no_decay, kPatterns,
              "Patterns of parameters without decay; `vectors`: all of one dimension."},
             {"train.lr_factors", t.lr_factors,
              texts(is_factor, "is no name with a factor", "give pattern=number, e.g. head=0.1"),
              "Factors on the rate by pattern, as `blocks.*=0.1`; the first match counts."},
             {"train.grad_clip", t.grad_clip, zero_or_positive("0 clips nothing"),
              "Largest global norm of the gradients; 0: not clipped."},
             {"train.ema", t.ema, within("[)", 0, 1, "e.g. 0.999"),
              "Decay of a moving average of the weights; 0: none."},
             {"train.ema_valid", t.ema_valid, "Validate, forecast and export with the average."}});
}

void add_rate_rows(KeyRows& to, TrainSpec& t) {
  to.insert(
      to.end(),
      {{"train.lr_schedule", t.lr_schedule, "Schedule of the learning rate."},
       {"train.warmup", t.warmup, at_least(0), "Optimizer steps of linear warm-up."},
       {"train.lr_steps", t.lr_steps, at_least(0), "cosine: its length; 0: train.steps."},
       {"train.lr_min", t.lr_min, kWeight, "cosine: final rate; plateau: lowest rate."},
       {"train.lr_gamma", t.lr_gamma, within("()", 0, 1, "e.g. 0.1"), "step, plateau: factor."},
       {"train.lr_step_size", t.lr_step_size, at_least(0), "step: optimizer steps between factors."},
       {"train.lr_patience", t.lr_patience, at_least(0),
        "plateau: validations without improvement before a factor."},
       {"train.lr_threshold", t.lr_threshold, within("[)", 0, 1, "e.g. 1e-4"),
        "plateau: relative improvement that counts."},
       {"train.lr_cooldown", t.lr_cooldown, at_least(0), "plateau: validations ignored after a factor."},
       {"train.lr_scaling", t.lr_scaling, "Scale lr by global_batch over lr_base_batch, or by its root."},
       {"train.lr_base_batch", t.lr_base_batch, at_least(1), "Batch for which train.lr is meant."}});
}

// Trained parameters, and fp16's loss scale
void add_parameter_rows(KeyRows& to, TrainSpec& t) {
  to.insert(
      to.end(),
      {{"train.freeze", t.freeze, kPatterns,
        "Patterns of parameters that are not trained, as `blocks.*.attn`. With adapters and none given: all "
        "others."},
       {"train.init_from", t.init_from,
        "Run, checkpoint or safetensors file with the first weights. Empty: random."},
       {"train.lora_rank", t.lora_rank, from_to(0, kMostSize), "Rank of low-rank adapters; 0: none."},
       {"train.lora_alpha", t.lora_alpha, zero_or_positive("give 0 (the rank) or more"),
        "Adapters are scaled by alpha over rank; 0: 1."},
       {"train.lora_targets", t.lora_targets, kPatterns,
        "Patterns of the weights that get adapters; q, k and v are one weight."},
       {"train.initial_loss_scale", t.initial_loss_scale, positive("e.g. 65536"),
        "fp16: first loss scale; at most 2^100."},
       {"train.min_loss_scale", t.min_loss_scale, positive("e.g. 1"),
        "fp16: an overflow at this scale ends the run."},
       {"train.loss_scale_window", t.loss_scale_window, at_least(1),
        "fp16: steps without overflow before the scale doubles."}});
}

void add_end_rows(KeyRows& to, TrainSpec& t) {
  to.insert(to.end(),
            {{"train.log_every", t.log_every, at_least(1), "Optimizer steps between log lines."},
             {"train.valid_every", t.valid_every, at_least_or(0, "epoch"),
              "Optimizer steps between validations, or epoch; 0: once at the end."},
             {"train.checkpoint_every", t.checkpoint_every, at_least_or(0, "epoch"),
              "Optimizer steps between checkpoints, or epoch; 0: none."},
             {"train.checkpoint_keep", t.checkpoint_keep, at_least(0),
              "Last checkpoints kept, beside the best; 0: all."},
             {"train.checkpoint_best", t.checkpoint_best,
              "Write a checkpoint at each lowest validation loss; RUN/checkpoints/best links to it."},
             {"train.early_stopping_patience", t.early_stopping_patience, at_least(0),
              "Validations in a row without a lower loss before the run ends; 0: never."},
             {"train.jacobian_samples", t.jacobian_samples, at_least(0),
              "mlp: validation samples whose Jacobian each validation computes; 0: none."},
             {"train.jacobian_window", t.jacobian_window, from_to(0, 1 << 20),
              "Validations over which a steady Jacobian norm ends the run; 0: never."},
             {"train.jacobian_tolerance", t.jacobian_tolerance, within("()", 0, 1, "e.g. 1e-3"),
              "Relative change of the norm that counts as steady."},
             {"train.min_steps", t.min_steps, at_least(0), "No early end before this optimizer step."}});
}

}  // namespace

void add_train_rows(KeyRows& to, RunSpec& s) {
  TrainSpec& t = s.train;
  to.insert(to.end(), {{"train.global_batch", t.global_batch, from_to(1, 1 << 24),
                        "Samples of an optimizer step, over all ranks."},
                       {"train.steps", t.steps, from_to(1, int64_t{1} << 36), "Optimizer steps."},
                       {"train.epochs", t.epochs, from_to(0, 1 << 24),
                        "Passes over the training data, which give train.steps: an epoch's whole global "
                        "batches, without its rest. 0: train.steps counts."},
                       {"train.seed", t.seed, at_least(0), "Seed of weights, shuffling and dropout."}});
  add_loss_rows(to, t);
  if (s.net.rolls_out()) add_rollout_rows(to, t);
  add_optimizer_rows(to, t);
  add_rate_rows(to, t);
  add_parameter_rows(to, t);
  add_end_rows(to, t);
}

}  // namespace isobar
