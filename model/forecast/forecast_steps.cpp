#include "model/forecast/forecast_steps.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>

#include "model/base/error.h"
#include "model/base/step_tensor.h"
#include "model/base/text/progress.h"
#include "model/data/written/forecast_file.h"
#include "model/engine/host/host.h"
#include "model/forecast/sample_tensors.h"
#include "model/inference/roll_forward.h"

namespace isobar::forecast {
namespace {

void check_rolls(const StepsQuestion& q, const NetAndData& from) {
  const RunSpec& spec = from.state.spec;
  if (!spec.net.rolls_out())
    throw ConfigError(from.checkpoint.string(), "--steps", "a " + spec.net.kind() + " is not rolled forward",
                      "forecast one step: leave --steps out");
  const data::SampleShape shape = from.set->shape();
  const data::ChannelNames names = from.set->channels();
  const auto newest = names.inputs.begin() + (shape.history - 1) * shape.of_a_time();
  if (shape.target.channels > shape.of_a_time() ||
      !std::equal(names.targets.begin(), names.targets.end(), newest))
    throw ConfigError(from.checkpoint.string(), "--steps",
                      "the net does not predict the first channels that it reads of a time",
                      "forecast one step, or train it with data.inputs that name the targets first");
  if (!from.set->target_statistics().mean.empty())
    throw ConfigError(from.checkpoint.string(), "--steps",
                      "was written before checkpoints said how channels are normalised",
                      "train it again, or resume it for a step");
  if (std::filesystem::path(q.out).extension() == ".npz")
    throw ConfigError(q.out, "--steps", "is for netCDF, which has an axis of lead times",
                      "give another -o, e.g. forecast.nc");
}

class Steps {
 public:
  Steps(const StepsQuestion& q, const NetAndData& from)
      : q_(q), from_(from), set_(*from.set), shape_(set_.shape()), sample_(set_) {
    for (int64_t k = 0; k < shape_.steps; ++k)
      scores_.hours.push_back(set_.hours(0, k + 1) - set_.hours(0, 0));
    scores_.loss.assign(static_cast<size_t>(shape_.steps), 0);
    scores_.errors.assign(static_cast<size_t>(shape_.steps),
                          std::vector<double>(static_cast<size_t>(shape_.target.channels), 0));
  }

  StepScores run() {
    data::Coordinates at = set_.coordinates();
    at.time_units = std::isnan(set_.hours(0, 0)) ? "" : "hours since 1970-01-01 00:00:00";
    at.calendar = "standard";
    auto net = std::make_unique<inference::Forecaster>(from_.checkpoint, from_.state,
                                                       std::min(q_.batch, set_.size()), q_.threads);
    data::ForecastFile file(q_.out,
                            {{"title", "forecasts of " + from_.checkpoint.string()},
                             {"source", "Isobar, net.kind " + from_.state.spec.net.kind()},
                             {"history", engine::utc_now() + " isobar forecast"}},
                            set_.size(), shape_, set_.channels().targets, at, "forecast of ", scores_.hours);
    Progress bar("forecasts", set_.size(), q_.bar);
    for (int64_t first = 0; first < set_.size();) {
      const int64_t n = std::min(q_.batch, set_.size() - first);
      if (net->batch() != n) net = std::make_unique<inference::Forecaster>(*net, n, q_.threads);
      forecast(*net, first, n, file);
      bar.update(first += n);
    }
    file.finish();
    bar.finish();
    return std::move(scores_);
  }

 private:
  // Reads sample i as number b of n: its input, the targets of all steps and the known inputs of later ones,
  // normalised.
  void read(int64_t i, int64_t b, int64_t n) {
    const inference::NetChannels& channels = from_.state.channels;
    const auto end = channels.inputs.end() - shape_.fixed;
    const std::vector<inference::NetChannel> known(end - shape_.known, end);
    sample_.read(i);
    const auto take = [&](const std::string& name, const std::vector<inference::NetChannel>& of,
                          std::vector<float>& all) {
      const int64_t count = static_cast<int64_t>(of.size()) * points();
      all.resize(static_cast<size_t>(n * count));
      if (count > 0) from_.normalised(of, points(), sample_[name], all.data() + b * count);
    };
    take("input", channels.inputs, input_);
    for (int64_t k = 0; k < shape_.steps; ++k) {
      take(step_tensor("target", k), channels.targets, targets_[k]);
      if (!shape_.masked) continue;
      const int64_t count = shape_.target.size();
      masks_[k].resize(static_cast<size_t>(n * count));
      std::copy_n(sample_[step_tensor("mask", k)], count, masks_[k].data() + b * count);
    }
    for (int64_t k = 0; k + 1 < shape_.steps && shape_.known > 0; ++k)
      take(step_tensor("forcing", k), known, forcings_[k]);
  }

  void forecast(inference::Forecaster& net, int64_t first, int64_t n, data::ForecastFile& file) {
    targets_.resize(static_cast<size_t>(shape_.steps));
    forcings_.resize(static_cast<size_t>(shape_.steps));
    masks_.resize(static_cast<size_t>(shape_.steps));
    for (int64_t b = 0; b < n; ++b) read(first + b, b, n);
    const auto size = static_cast<size_t>(shape_.target.size());
    std::vector<std::vector<float>> predicted(static_cast<size_t>(shape_.steps));
    inference::RollForward roll(net, shape_.history, shape_.known, shape_.fixed);
    roll.start(input_.data());
    for (int64_t k = 0; k < shape_.steps; ++k) {
      if (net.reads_times()) {
        std::vector<double> hours;
        for (int64_t b = 0; b < n; ++b) hours.push_back(set_.hours(first + b, k));
        net.at(std::move(hours));
      }
      std::vector<float>& now = predicted[static_cast<size_t>(k)];
      now.resize(static_cast<size_t>(n) * size);
      const std::vector<float>& mask = masks_[static_cast<size_t>(k)];
      roll.step(targets_[static_cast<size_t>(k)].data(), now.data(), mask.empty() ? nullptr : mask.data());
      add(net, static_cast<size_t>(k), n);
      const auto where_masked = [&](float x) {  // masked points were never trained
        for (size_t i = 0; i < mask.size(); ++i)
          if (mask[i] == 0) now[i] = x;
      };
      where_masked(0);  // as masked inputs are
      if (k + 1 < shape_.steps) roll.follow(now.data(), forcings_[static_cast<size_t>(k)].data());
      inference::denormalise(from_.state.channels.targets, points(), n, now.data());
      where_masked(std::numeric_limits<float>::quiet_NaN());
    }
    for (int64_t b = 0; b < n; ++b)
      for (const std::vector<float>& of_step : predicted)
        file.append(of_step.data() + static_cast<size_t>(b) * size, set_.hours(first + b, 0));
  }

  void add(const inference::Forecaster& net, size_t k, int64_t n) {
    const double share = static_cast<double>(n) / static_cast<double>(set_.size());
    const std::vector<double> errors = net.errors();
    scores_.loss[k] += share * net.loss();
    for (size_t c = 0; c < errors.size(); ++c) scores_.errors[k][c] += share * errors[c];
  }
  int64_t points() const { return shape_.target.height * shape_.target.width; }

  const StepsQuestion& q_;
  const NetAndData& from_;
  const data::Dataset& set_;
  const data::SampleShape shape_;
  SampleTensors sample_;
  std::vector<float> input_;
  std::vector<std::vector<float>> targets_, masks_, forcings_;  // by step
  StepScores scores_;
};

}  // namespace

StepScores forecast_steps(const StepsQuestion& q, const NetAndData& from) {
  check_rolls(q, from);
  return Steps(q, from).run();
}

}  // namespace isobar::forecast
