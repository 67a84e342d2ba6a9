#include "model/data/choice/sample_order.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "model/base/error.h"
#include "model/base/rng.h"
#include "model/base/system/child.h"
#include "model/data/dataset.h"

namespace isobar::data {
namespace {

constexpr uint64_t kShuffleStream = uint64_t{0x64617461} << 32;  // "data": a random stream of its own

}  // namespace

SampleOrder::SampleOrder(int64_t set_size, int64_t global_batch, uint64_t seed, bool shuffle, bool whole)
    : set_size_(set_size),
      global_batch_(global_batch),
      batches_((set_size + (whole ? global_batch - 1 : 0)) / global_batch),
      seed_(seed),
      shuffle_(shuffle) {}

int64_t SampleOrder::at(int64_t step, int64_t place) {
  if (step / batches_ != epoch_) {
    epoch_ = step / batches_;
    if (shuffle_) {
      order_ = permutation(set_size_, seed_, kShuffleStream + static_cast<uint64_t>(epoch_));
    } else {
      order_.resize(static_cast<size_t>(set_size_));
      std::iota(order_.begin(), order_.end(), 0);
    }
  }
  return order_[std::min(step % batches_ * global_batch_ + place, set_size_ - 1)];
}

std::vector<int64_t> global_batch_samples(int64_t set_size, int64_t global_batch, int64_t step, uint64_t seed,
                                          bool shuffle) {
  SampleOrder order(set_size, global_batch, seed, shuffle);
  if (order.batches_per_epoch() == 0)
    throw std::invalid_argument("global_batch_samples: fewer samples than one global batch");
  std::vector<int64_t> samples(static_cast<size_t>(global_batch));
  for (int64_t i = 0; i < global_batch; ++i) samples[i] = order.at(step, i);
  return samples;
}

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
