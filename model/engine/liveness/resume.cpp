#include "model/engine/liveness/resume.h"

#include <algorithm>
#include <iterator>

#include "model/base/error.h"

namespace isobar::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Keys of sections that may change. A key that is not listed must be equal: the safe default for new keys.
constexpr const char* kDataKeys[] = {
    "train", "valid", "means", "stds", "workers", "prefetch", "limit_valid_samples"};
constexpr const char* kTrainKeys[] = {"steps",
                                      "loss",
                                      "loss_weights",
                                      "latitude_weights",
                                      "variable_weights",
                                      "level_weights",
                                      "loss_weighting",
                                      "surface_weight",
                                      "upper_weight",
                                      "data_weight",
                                      "intensity",
                                      "huber_delta",
                                      "lr",
                                      "momentum",
                                      "beta1",
                                      "beta2",
                                      "adam_eps",
                                      "weight_decay",
                                      "no_decay",
                                      "lr_factors",
                                      "ema_valid",
                                      "lr_schedule",
                                      "lr_gamma",
                                      "lr_step_size",
                                      "lr_patience",
                                      "lr_threshold",
                                      "lr_cooldown",
                                      "lr_min",
                                      "warmup",
                                      "lr_scaling",
                                      "lr_base_batch",
                                      "grad_clip",
                                      "initial_loss_scale",
                                      "min_loss_scale",
                                      "loss_scale_window",
                                      "log_every",
                                      "epochs",
                                      "valid_every",
                                      "checkpoint_every",
                                      "checkpoint_keep",
                                      "checkpoint_best",
                                      "early_stopping_patience",
                                      "jacobian_samples",
                                      "jacobian_window",
                                      "jacobian_tolerance",
                                      "min_steps",
                                      "init_from"};

template <size_t n>
bool is_among(const char* const (&names)[n], const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool may_change(const std::string& section, const std::string& name) {
  if (section == "layout" || section == "policy" || section == "run") return true;
  if (section == "net") return name == "expert_imbalance";  // of predictions alone
  return section == "data" ? is_among(kDataKeys, name) : section == "train" && is_among(kTrainKeys, name);
}

std::string why_not(const std::string& section) {
  if (section == "net") return "resume with the same net, or train the other one anew";
  return "resume with the same value, or the training would not go on where it stood";
}

std::vector<ChangedKey> changes_between(const inference::CheckpointState& state, const RunSpec& spec,
                                        const fs::path& from) {
  std::vector<ChangedKey> changes;
  const json before = to_json(state.spec), now = to_json(spec);
  for (const auto& [section, keys] : now.items())
    for (const auto& [name, value] : keys.items()) {
      const std::string key = section + "." + name;
      // Schema 1 records only these two keys of its run.
      if (!state.checkable() && key != "train.seed" && key != "train.global_batch") continue;
      const json& was = before.at(section).at(name);
      if (was == value) continue;
      if (!may_change(section, name))
        throw ConfigError(from.string(), key,
                          "the checkpoint was made with " + was.dump() + ", not " + value.dump(),
                          why_not(section));
      if (key != "run.out") changes.push_back({key, was, value});
    }
  return changes;
}

}  // namespace

Resume check_resume(const fs::path& dir, const RunSpec& spec) {
  Resume r;
  r.from = inference::find_checkpoint(dir);
  r.state = inference::state_of(r.from);
  r.changes = changes_between(r.state, spec, r.from);
  inference::check_files(r.from, r.state);
  const int64_t step = r.state.train.step;
  if (step > spec.train.steps)
    throw ConfigError(r.from.string(), "train.steps",
                      "is " + std::to_string(spec.train.steps) +
                          ", and the checkpoint was written after step " + std::to_string(step),
                      "raise train.steps above " + std::to_string(step));
  return r;
}

void compare_again(Resume& r, const RunSpec& spec) {
  r.changes = changes_between(r.state, spec, r.from);
}

std::string text_of(const Resume& r) {
  std::string text = "resumes " + r.from.string() + ", after step " + std::to_string(r.state.train.step);
  for (size_t i = 0; i < r.changes.size(); ++i) {
    const ChangedKey& c = r.changes[i];
    text += (i == 0 ? "; changed: " : ", ") + c.key + " " + c.before.dump() + " -> " + c.now.dump();
  }
  if (!r.state.checkable())
    text +=
        "\n  (written before checkpoints carried digests and their run's settings: only shapes, train.seed "
        "and "
        "train.global_batch were checked, not the files' bytes, heads, GELU, optimizer or data)";
  return text;
}

records::ResumeRecord record_of(const Resume& r) {
  records::ResumeRecord out{
      .step = r.state.train.step, .path = r.from.string(), .checked = r.state.checkable()};
  for (const ChangedKey& c : r.changes) out.changed[c.key] = {c.before, c.now};
  return out;
}

}  // namespace isobar::engine
