#include "model/engine/rank_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "model/base/error.h"
#include "model/base/text/printed.h"
#include "model/engine/channels_of_data.h"
#include "model/plan/layout.h"

namespace isobar::engine {
namespace {

bool has(const plan::Plan& plan, plan::OpKind kind) {
  return std::any_of(plan.ops.begin(), plan.ops.end(), [&](const plan::Op& op) { return op.kind == kind; });
}

// Copies with all threads of the rank, because one core is too slow to feed a GPU.
void copy(const float* from, int64_t count, float* to) {
  constexpr int64_t kPart = int64_t{1} << 20;  // floats
#pragma omp parallel for schedule(static) if (count > kPart)
  for (int64_t i = 0; i < count; i += kPart)
    std::memcpy(to + i, from + i, static_cast<size_t>(std::min(kPart, count - i)) * sizeof(float));
}

// Checks tensor sizes, because copying a larger tensor would read past the loader's buffer.
void require_what_is_read(const RunSpec& spec, const plan::Plan& plan, const data::Dataset& set,
                          const char* key) {
  const std::vector<data::SampleTensor> given = set.tensors();
  for (const plan::BatchTensor& t : plan.batch) {
    if (t.role == plan::BatchRole::time) {
      if (std::isnan(set.hours(0, 0)))
        throw ConfigError(spec.file, key,
                          "has no times, and net.kind " + spec.net.kind() + " reads when its samples were",
                          "give files with a time axis (CF NetCDF or Zarr)");
      continue;
    }
    const auto same =
        std::find_if(given.begin(), given.end(), [&](const auto& g) { return g.name == t.name; });
    if (same == given.end() || t.dtype != same->dtype || same->size != t.sample)
      throw std::logic_error(
          "the net reads " + std::to_string(t.sample) + " " + name_of(t.dtype) + " of " + t.name +
          " of each sample, and the data give " +
          (same == given.end() ? "none" : std::to_string(same->size) + " " + name_of(same->dtype)));
  }
}

// The replay buffer needs samples whose successor is in the data.
void require_what_follows(const RunSpec& spec, const data::Dataset& set) {
  for (int64_t i = 0; i < set.size(); ++i)
    if (set.one_later(i) >= 0) return;
  throw ConfigError(spec.file, "train.replay_capacity",
                    "feeds predictions back, and no two samples of data.train are data.dt apart",
                    "give longer files or a shorter data.dt, or leave the buffer out");
}

}  // namespace

RankData::RankData(const RunSpec& spec, const plan::Plan& plan, int rank, const data::Statistics* known)
    : spec_(spec) {
  const data::SampleShape shape = data::sample_shape(spec);
  const plan::Coords at = plan::coords_of(spec.layout, rank);
  const int64_t dp = spec.layout.dp, batch = spec.micro_batch();
  train_set_ = data::open_dataset(spec.data, spec.data.train, data::Split::train, shape, known);
  if (train_set_->size() < spec.train.global_batch)
    throw ConfigError(spec.file, "train.global_batch",
                      std::to_string(spec.train.global_batch) + " is more than the " +
                          std::to_string(train_set_->size()) + " samples of data.train",
                      "lower it or give more data");
  const auto seed = static_cast<uint64_t>(spec.train.seed);
  // Only the first and the last pipeline stage read samples; ranks of one replica read the same ones.
  const bool reads = has(plan, plan::OpKind::fetch);
  scores_ =
      (has(plan, plan::OpKind::loss) || has(plan, plan::OpKind::cross_entropy)) && at.tp == 0 && at.cp == 0;
  replica_ = at.dp;
  if (reads) {
    data::LoaderOptions options{batch,
                                spec.micro_batches(),
                                dp,
                                at.dp,
                                seed,
                                spec.data.workers,
                                spec.data.prefetch,
                                spec.data.shuffle};
    if (spec.train.replay_capacity > 0) {
      require_what_follows(spec, *train_set_);
      options.choose = [schedule = replay_schedule()](int64_t step, int64_t i) mutable {
        return schedule.at(step, i).sample;
      };
    }
    train_loader_.emplace(*train_set_, std::move(options));
  }
  require_what_is_read(spec, plan, *train_set_, "data.train");
  require_fit(spec, *train_set_, spec.data.train);
  if (!spec.data.validates()) return;
  valid_set_ = data::open_dataset(spec.data, spec.data.valid, data::Split::valid, shape, known);
  require_what_is_read(spec, plan, *valid_set_, "data.valid");
  require_fit(spec, *valid_set_, spec.data.valid);
  if (!spec.data.train.empty() && !spec.data.valid.empty())
    require_channels(channels_of_data(*train_set_), *valid_set_, spec.data.valid);
  if (reads)
    valid_loader_.emplace(*valid_set_, data::LoaderOptions{batch, 1, dp, at.dp, seed, 0, 1, false, true});
}

std::string RankData::compare_with(const inference::NetChannels& net, const std::string& checkpoint) const {
  if (!net.known() || spec_.data.train.empty()) return "";
  require_channels(net, *train_set_, checkpoint);
  constexpr float kShare = 0.01f;  // of a deviation: archives grow
  const inference::NetChannels now = net_channels();
  for (size_t c = 0; c < net.targets.size(); ++c) {
    const inference::NetChannel &was = net.targets[c], &is = now.targets[c];
    const float most = kShare * was.std;
    if (std::abs(is.mean - was.mean) <= most && std::abs(is.std - was.std) <= most) continue;
    return printed(
        "data       %s has mean %g and deviation %g, and the checkpoint's had %g and %g: other data?",
        is.name.c_str(), static_cast<double>(is.mean), static_cast<double>(is.std),
        static_cast<double>(was.mean), static_cast<double>(was.std));
  }
  return "";
}

data::ReplaySchedule RankData::replay_schedule() const {
  return {spec_, *train_set_, replica_ * spec_.micro_batch(), spec_.micro_batch()};
}

int64_t RankData::steps_per_epoch() const {
  return train_set_->size() / spec_.train.global_batch;
}

int64_t RankData::validation_batches() const {
  const int64_t whole = spec_.micro_batch() * spec_.layout.dp;
  return (valid_set_->size() + whole - 1) / whole;
}

int64_t RankData::validation_padding(int64_t batch) const {
  const int64_t mine = spec_.micro_batch(), end = (batch * spec_.layout.dp + replica_ + 1) * mine;
  return std::clamp<int64_t>(end - valid_set_->size(), 0, mine);
}

void RankData::seek(int64_t step) {
  if (train_loader_) train_loader_->seek(step * spec_.micro_batches());
}

void RankData::seek_validation() {
  if (valid_loader_) valid_loader_->seek(0);
}

data::Batch RankData::next(const BatchPlaces& to) {
  return fetch(train_loader_.value(), to);
}

data::Batch RankData::next_validation(const BatchPlaces& to) {
  return fetch(valid_loader_.value(), to);
}

data::Batch RankData::fetch(data::Loader& loader, const BatchPlaces& to) const {
  const data::Batch batch = loader.next();
  for (const plan::BatchTensor& t : to.tensors()) {
    float* const place = to.floats(t.name);
    if (place == nullptr) continue;
    if (t.role == plan::BatchRole::time)
      for (int64_t b = 0; b < spec_.micro_batch(); ++b) t.code(batch.hours[b], place + b * t.sample);
    else if (t.held.size() > 0 && t.held.size() < t.sample)
      for (int64_t b = 0; b < spec_.micro_batch(); ++b) {
        const float* const sample = batch.at(t.name) + b * t.sample;
        float* const to_sample = place + b * t.held.size();
        copy(sample + t.held.first, t.held.count, to_sample);
        copy(sample + t.held.then, t.held.more, to_sample + t.held.count);
      }
    else
      copy(batch.at(t.name), spec_.micro_batch() * t.sample, place);
  }
  return batch;
}

}  // namespace isobar::engine
