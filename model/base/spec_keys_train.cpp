// Keys of training: loss, roll-outs, optimizer, rates, checkpoints and ends.
#include "model/base/spec_keys.h"

namespace isobar {
namespace {

constexpr KeyRow kTrainKeys[] = {
    {"train.global_batch", "", "[1, 16777216]", "Samples of an optimizer step, over all ranks."},
    {"train.steps", "", ">= 1", "Optimizer steps."},
    {"train.seed", "", ">= 0", "Seed of weights, shuffling and dropout."},
    // loss
    {"train.loss", "", "relative-l2 | mae | mse | huber | cross_entropy",
     "Loss; cross_entropy is for an mlp's classes."},
    {"train.huber_delta", "", "> 0", "Error at which Huber's loss turns from square to linear."},
    {"train.loss_weights", "", "", "mae, mse, huber: a factor a channel or output. Empty: 1."},
    {"train.variable_weights", "", "",
     "mae, mse, huber: factors by variable or channel, as `z=3.5`; others 1."},
    {"train.level_weights", "", "none | pressure", "Weight a variable's levels by pressure, with mean 1."},
    {"train.loss_weighting", "", "channels | mean | aurora",
     "Weights as given, divided by their mean, or Aurora's surface and upper-air terms."},
    {"train.surface_weight", "", ">= 0", "Aurora's alpha (loss_weighting aurora)."},
    {"train.upper_weight", "", ">= 0", "Aurora's beta (loss_weighting aurora)."},
    {"train.data_weight", "", ">= 0", "Aurora's gamma (loss_weighting aurora)."},
    {"train.intensity", "", "",
     "Factors on errors where the target exceeds a value in its unit, as `tp>10=3`."},
    {"train.latitude_weights", "", "",
     "mae, mse, huber: weight rows by the cosine of latitude, with mean 1."},
    // roll-outs
    {"train.rollout", "", "[1, 256]", "Steps of data.dt, each reading the prediction before it."},
    {"train.rollout_every", "", ">= 0",
     "Optimizer steps after which a roll-out of one step grows by one; 0: full length from the start."},
    {"train.rollout_gradient", "", "all | last",
     "Gradient through all steps, or through the last alone (push-forward)."},
    {"train.prediction", "", "state | increment",
     "The net predicts the next state, or its difference from the newest one read."},
    {"train.replay_capacity", "", "[0, 1048576]",
     "States of a replay buffer for each sample of the global batch; 0: none."},
    {"train.replay_refresh", "", ">= 1",
     "Optimizer steps between fresh states of the data in the replay buffer."},
    {"train.replay_max_lead", "", ">= 2", "Longest roll-out from the data, in steps of data.dt."},
    {"train.replay_warmup_steps", "", ">= 0",
     "First optimizer steps, with the shorter limit replay_warmup_lead."},
    {"train.replay_warmup_lead", "", ">= 1", "Longest roll-out during replay_warmup_steps."},
    // optimizer
    {"train.optimizer", "", "adam | adamw | sgd", "Optimizer."},
    {"train.lr", "", "> 0", "Learning rate."},
    {"train.momentum", "", "[0, 1)", "Momentum of sgd."},
    {"train.beta1", "", "[0, 1)", "Adam's decay of the first moment."},
    {"train.beta2", "", "[0, 1)", "Adam's decay of the second moment."},
    {"train.adam_eps", "", "> 0", "Added to the root of the second moment."},
    {"train.weight_decay", "", ">= 0", "Weight decay."},
    {"train.no_decay", "", "", "Patterns of parameters without decay; `vectors`: all of one dimension."},
    {"train.lr_factors", "", "",
     "Factors on the rate by pattern, as `blocks.*=0.1`; the first match counts."},
    {"train.grad_clip", "", ">= 0", "Largest global norm of the gradients; 0: not clipped."},
    {"train.ema", "", "[0, 1)", "Decay of a moving average of the weights; 0: none."},
    {"train.ema_valid", "", "", "Validate, forecast and export with the average."},
    // rates
    {"train.lr_schedule", "", "cosine | constant | step | plateau", "Schedule of the learning rate."},
    {"train.warmup", "", ">= 0", "Optimizer steps of linear warm-up."},
    {"train.lr_steps", "", ">= 0", "cosine: its length; 0: train.steps."},
    {"train.lr_min", "", ">= 0", "cosine: final rate; plateau: lowest rate."},
    {"train.lr_gamma", "", "(0, 1)", "step, plateau: factor."},
    {"train.lr_step_size", "", ">= 0", "step: optimizer steps between factors."},
    {"train.lr_patience", "", ">= 0", "plateau: validations without improvement before a factor."},
    {"train.lr_threshold", "", "[0, 1)", "plateau: relative improvement that counts."},
    {"train.lr_cooldown", "", ">= 0", "plateau: validations ignored after a factor."},
    {"train.lr_scaling", "", "none | sqrt | linear",
     "Scale lr by global_batch over lr_base_batch, or by its root."},
    {"train.lr_base_batch", "", ">= 1", "Batch for which train.lr is meant."},
    // what is trained
    {"train.freeze", "", "",
     "Patterns of parameters that are not trained, as `blocks.*.attn`. With adapters and none given: all "
     "others."},
    {"train.init_from", "", "", "Run, checkpoint or safetensors file with the first weights. Empty: random."},
    {"train.lora_rank", "", "[0, 131072]", "Rank of low-rank adapters; 0: none."},
    {"train.lora_alpha", "", ">= 0", "Adapters are scaled by alpha over rank; 0: 1."},
    {"train.lora_targets", "", "", "Patterns of the weights that get adapters; q, k and v are one weight."},
    // fp16
    {"train.initial_loss_scale", "", "> 0", "fp16: first loss scale; at most 2^100."},
    {"train.min_loss_scale", "", "> 0", "fp16: an overflow at this scale ends the run."},
    {"train.loss_scale_window", "", ">= 1", "fp16: steps without overflow before the scale doubles."},
    // logs, checkpoints, ends
    {"train.log_every", "", ">= 1", "Optimizer steps between log lines."},
    {"train.valid_every", "", ">= 0", "Optimizer steps between validations; 0: once at the end."},
    {"train.checkpoint_every", "", ">= 0", "Optimizer steps between checkpoints; 0: none."},
    {"train.checkpoint_keep", "", ">= 0", "Last checkpoints kept, beside the best; 0: all."},
    {"train.checkpoint_best", "", "",
     "Write a checkpoint at each lowest validation loss; RUN/checkpoints/best links to it."},
    {"train.early_stopping_patience", "", ">= 0",
     "Validations in a row without a lower loss before the run ends; 0: never."},
    {"train.jacobian_samples", "", ">= 0",
     "mlp: validation samples whose Jacobian each validation computes; 0: none."},
    {"train.jacobian_window", "", "[0, 1048576]",
     "Validations over which a steady Jacobian norm ends the run; 0: never."},
    {"train.jacobian_tolerance", "", "(0, 1)", "Relative change of the norm that counts as steady."},
    {"train.min_steps", "", ">= 0", "No early end before this optimizer step."},
};

}  // namespace

std::span<const KeyRow> train_key_rows() {
  return kTrainKeys;
}

}  // namespace isobar
