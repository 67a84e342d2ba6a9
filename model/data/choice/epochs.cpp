#include "model/data/choice/epochs.h"

#include <map>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/system/child.h"
#include "model/data/dataset.h"

namespace isobar::data {
namespace {

int64_t training_samples(const RunSpec& spec) {
  const Statistics physical;  // none are computed
  return open_dataset(spec.data, spec.data.train, Split::train, sample_shape(spec), &physical)->size();
}

RunSpec with_steps(RunSpec spec, int64_t samples) {
  TrainSpec& t = spec.train;
  const int64_t of_epoch = samples / t.global_batch;
  if (of_epoch == 0)
    throw ConfigError(spec.file, "train.global_batch",
                      std::to_string(t.global_batch) + " is more than the " + std::to_string(samples) +
                          " samples of data.train: an epoch has no step",
                      "lower it or give more data");
  t.steps = t.epochs * of_epoch;
  validate(spec);
  return spec;
}

bool counted(const RunSpec& spec) {
  return spec.train.epochs > 0 && spec.run.command.empty();
}

}  // namespace

RunSpec with_epochs(const RunSpec& spec) {
  return counted(spec) ? with_steps(spec, training_samples(spec)) : spec;
}

RunSpec with_epochs_apart(const RunSpec& spec) {
  if (!counted(spec)) return spec;
  static std::map<std::string, int64_t> known;
  const nlohmann::json j = to_json(spec);
  const std::string key = nlohmann::json{j.at("data"), j.at("net"), spec.train.rollout, spec.learnt_steps(),
                                         name_of(spec.train.loss)}
                              .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto it = known.find(key);
  if (it != known.end()) return with_steps(spec, it->second);
  try {
    ChildWork work({}, [&](const ChildProgress&) { return std::to_string(training_samples(spec)); });
    return with_steps(spec, known[key] = std::stoll(work.answer()));
  } catch (const ChildDied& e) {
    throw ConfigError(spec.data.train, "data.train", e.what(), kHarmful);
  } catch (const ChildFailed& e) {
    throw ConfigError(spec.data.train, "data.train", std::string("cannot be read: ") + e.what(), kHarmful);
  }
}

}  // namespace isobar::data
