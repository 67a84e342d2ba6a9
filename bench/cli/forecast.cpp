// isobar forecast: a trained net's predictions of samples, as a CF netCDF file, and their errors.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/cli/commands.h"
#include "bench/cli/forecast_steps.h"
#include "bench/cli/net_and_data.h"
#include "model/backend/cpu/kernels.h"
#include "model/base/classes.h"
#include "model/base/error.h"
#include "model/base/json.h"
#include "model/base/progress.h"
#include "model/data/class_file.h"
#include "model/data/forecast_arrays.h"
#include "model/data/forecast_file.h"
#include "model/engine/channels_of_data.h"
#include "model/engine/host/host.h"
#include "model/inference/checkpoint.h"
#include "model/inference/forecaster.h"

namespace isobar {
namespace {

struct Arguments {
  std::string from, data, out;
  int64_t samples = 0, batch = 0, threads = 0, steps = 1;
  bool force = false, json = false;
};

class ForecastScores {  // means over samples
 public:
  void add(const Forecaster& net) {
    const auto samples = static_cast<double>(net.batch());
    const std::vector<double> errors = net.errors();
    errors_.resize(errors.size());
    for (size_t c = 0; c < errors.size(); ++c) errors_[c] += samples * errors[c];
    loss_ += samples * net.loss();
    samples_ += samples;
  }
  double loss() const { return loss_ / samples_; }
  double error(size_t channel) const { return errors_[channel] / samples_; }
  void count(const float* classes, int64_t samples) {
    for (int64_t i = 0; i < samples; ++i) ++frequency_[static_cast<int64_t>(classes[i])];
  }
  double most_frequent() const {  // the most frequent class's share of the samples
    double most = 0;
    for (const auto& [of, count] : frequency_) most = std::max(most, static_cast<double>(count));
    return most / samples_;
  }

 private:
  std::map<int64_t, int64_t> frequency_;
  std::vector<double> errors_;
  double loss_ = 0, samples_ = 0;
};

std::vector<std::string> names_of_outputs(const CheckpointState& state) {
  std::vector<std::string> names;
  for (const NetChannel& c : outputs_of(state.channels, classes_of(state.spec))) names.push_back(c.name);
  return names;
}

void say_classes(const Arguments& a, const NetAndData& from, const ForecastScores& scores) {
  if (a.json) {
    std::cout << json_text(nlohmann::json{{"checkpoint", from.checkpoint.string()},
                                          {"out", a.out},
                                          {"samples", from.set->size()},
                                          {"loss", scores.loss()},
                                          {"accuracy", scores.error(0)},
                                          {"baseline_accuracy", scores.most_frequent()}},
                           2)
              << "\n";
    return;
  }
  const DataSpec& d = from.state.spec.data;
  std::printf(
      "checkpoint  %s, after step %ld\nsamples     %ld of %s\nloss        %.5f\naccuracy    %.5f; of always "
      "saying "
      "the most frequent class %.5f\n\nwritten     %s\n",
      from.checkpoint.c_str(), from.state.train.step, from.set->size(),
      (d.valid.empty() ? d.train + ", its last part" : d.valid).c_str(), scores.loss(), scores.error(0),
      scores.most_frequent(), a.out.c_str());
}

ForecastScores write_forecasts(const Arguments& a, const NetAndData& from, int threads) {
  const auto& [checkpoint, state, opened] = from;
  const Dataset& set = *opened;
  const SampleShape shape = set.shape();
  const int64_t in = shape.input.size(), out = shape.target.size(),
                points = shape.target.height * shape.target.width;
  const std::map<std::string, std::string> about = {{"title", "forecasts of " + checkpoint.string()},
                                                    {"source", "Isobar, net.kind " + state.spec.net.kind()},
                                                    {"history", utc_now() + " isobar forecast"}};
  // Made first, so that an error leaves neither a file nor a progress bar.
  auto net = std::make_unique<Forecaster>(checkpoint, state, std::min(a.batch, set.size()), threads);
  std::optional<ForecastFile> fields;
  std::optional<ClassFile> classes;
  std::optional<ForecastArrays> arrays;
  if (std::filesystem::path(a.out).extension() == ".npz")
    arrays.emplace(a.out, shape, set.channels().targets);
  else if (shape.classes > 0)
    classes.emplace(a.out, about, set.size(), state.channels.targets.at(0).name, names_of_outputs(state));
  else
    fields.emplace(a.out, about, set.size(), shape, set.channels().targets, set.coordinates());
  ForecastScores scores;
  Progress bar("forecasts", set.size(), !a.json);
  std::vector<float> input(net->batch() * in), target(net->batch() * out),
      prediction(net->batch() * net->output().size()), mask(net->reads_mask() ? net->batch() * out : 0);
  for (int64_t first = 0; first < set.size();) {
    const int64_t n = std::min(a.batch, set.size() - first);
    if (net->batch() != n)  // the last batch
      net = std::make_unique<Forecaster>(*net, n, threads);
    for (int64_t i = 0; i < n; ++i)
      from.read(first + i, input.data() + i * in, target.data() + i * out,
                mask.empty() ? nullptr : mask.data() + i * out);
    if (net->reads_times()) {
      std::vector<double> hours;
      for (int64_t i = 0; i < n; ++i) hours.push_back(set.hours(first + i, 0));
      net->at(std::move(hours));
    }
    (*net)(input.data(), target.data(), prediction.data(), mask.empty() ? nullptr : mask.data());
    scores.add(*net);
    if (shape.classes > 0) {
      cpu::softmax(n, shape.classes, prediction.data(), prediction.data());
      arrays ? arrays->append_classes(prediction.data(), n) : classes->append(prediction.data(), n);
      scores.count(target.data(), n);
    } else {
      denormalise(state.channels.targets, points, n, prediction.data());
      for (int64_t i = 0; i < n * out && !mask.empty(); ++i)  // masked points were never trained
        if (mask[i] == 0) prediction[i] = std::numeric_limits<float>::quiet_NaN();
      for (int64_t i = 0; i < n; ++i) {
        const float* sample = prediction.data() + i * out;
        arrays ? arrays->append(sample) : fields->append(sample, set.target_time(first + i));
      }
    }
    bar.update(first += n);
  }
  if (arrays) arrays->finish();
  if (classes) classes->finish();
  if (fields) fields->finish();
  bar.finish();
  return scores;
}

void run_steps(const Arguments& a, const NetAndData& opened, int threads) {
  const auto& [checkpoint, state, set] = opened;
  const StepScores scores = forecast_steps({a.out, a.batch, threads, !a.json}, opened);
  const std::vector<std::string> units = set->coordinates().units;
  nlohmann::json steps = nlohmann::json::array();
  for (size_t k = 0; k < scores.loss.size(); ++k) {
    nlohmann::json channels = nlohmann::json::array();
    for (size_t c = 0; c < state.channels.targets.size(); ++c) {
      const NetChannel& target = state.channels.targets[c];
      channels.push_back({{"name", target.name},
                          {"units", c < units.size() ? units[c] : ""},
                          {"rmse", static_cast<double>(target.std) * scores.errors[k][c]},
                          {"rmse_normalised", scores.errors[k][c]}});
    }
    nlohmann::json hours;
    if (!std::isnan(scores.hours[k])) hours = scores.hours[k];
    steps.push_back({{"step", k + 1}, {"hours", hours}, {"loss", scores.loss[k]}, {"channels", channels}});
  }
  if (a.json) {
    std::cout << json_text(nlohmann::json{{"checkpoint", checkpoint.string()},
                                          {"out", a.out},
                                          {"samples", set->size()},
                                          {"steps", steps}},
                           2)
              << "\n";
    return;
  }
  const DataSpec& d = state.spec.data;
  std::printf("checkpoint  %s, after step %ld\nsamples     %ld of %s\n\n%4s %6s %-16s %12s %12s\n",
              checkpoint.c_str(), state.train.step, set->size(),
              (d.valid.empty() ? d.train + ", its last part" : d.valid).c_str(), "step", "hours", "target",
              "rmse", "normalised");
  for (const auto& s : steps)
    for (const auto& c : s["channels"])
      std::printf("%4ld %6s %-16s %12.5g %12.5f  %s\n", s["step"].get<long>(),
                  s["hours"].is_null() ? "-" : json_text(s["hours"]).c_str(),
                  c["name"].get<std::string>().c_str(), c["rmse"].get<double>(),
                  c["rmse_normalised"].get<double>(), c["units"].get<std::string>().c_str());
  std::printf("\nwritten     %s\n", a.out.c_str());
}

void run_forecast(Arguments a) {
  refuse_to_replace(a.out, a.force);
  const NetAndData opened = open_net_and_data(a.from, a.data, a.samples, a.steps);
  const auto& [checkpoint, state, set] = opened;
  const DataSpec& d = state.spec.data;
  const SampleShape shape = set->shape();
  const int threads = a.threads > 0 ? static_cast<int>(a.threads) : cores();
  omp_set_num_threads(threads);
  if (a.batch == 0) a.batch = shape.of_table ? 256 : 1;
  if (a.steps > 1) return run_steps(a, opened, threads);
  const ForecastScores scores = write_forecasts(a, opened, threads);

  if (shape.classes > 0) return say_classes(a, opened, scores);
  const std::vector<std::string> names = set->channels().targets;
  const std::vector<std::string> units = set->coordinates().units;
  const char* error = shape.of_table ? "mae" : "rmse";
  nlohmann::json channels = nlohmann::json::array();
  for (size_t c = 0; c < names.size(); ++c) {
    const double scale = static_cast<double>(state.channels.targets[c].std);
    channels.push_back({{"name", names[c]},
                        {"units", c < units.size() ? units[c] : ""},
                        {error, scale * scores.error(c)},
                        {std::string(error) + "_normalised", scores.error(c)}});
  }
  if (a.json) {
    std::cout << json_text(nlohmann::json{{"checkpoint", checkpoint.string()},
                                          {"out", a.out},
                                          {"samples", set->size()},
                                          {"loss", scores.loss()},
                                          {"channels", channels}},
                           2)
              << "\n";
    return;
  }
  std::printf("checkpoint  %s, after step %ld\nsamples     %ld of %s\nloss        %.5f\n\n%-16s %12s %12s\n",
              checkpoint.c_str(), state.train.step, set->size(),
              (d.valid.empty() ? d.train + ", its last part" : d.valid).c_str(), scores.loss(), "target",
              error, "normalised");
  for (const auto& c : channels)
    std::printf("%-16s %12.5g %12.5f  %s\n", c["name"].get<std::string>().c_str(), c[error].get<double>(),
                c[std::string(error) + "_normalised"].get<double>(), c["units"].get<std::string>().c_str());
  std::printf("\nwritten     %s\n", a.out.c_str());
}

}  // namespace

void add_forecast_command(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("forecast", "Forecast with a trained net; writes CF netCDF, or .npz");
  command->footer(
      "Runs the net of a checkpoint on this machine's cores over the data that its run was validated on, or "
      "over "
      "others\n(--data), which are read and normalised as in training: of the same kind, with the same "
      "channels. "
      "The file holds each\ntarget in its own units; what is printed is the error against the truth, with "
      "the "
      "formulas of the validation.\nFor a classifier it holds the most probable class and the "
      "probability of "
      "each.\n\n"
      "  isobar forecast runs/first -o forecast.nc                       the last checkpoint of a run\n"
      "  isobar forecast runs/first --steps 40 -o ten-days.nc            by lead time: (time, step, "
      "latitude, longitude)\n"
      "  isobar forecast runs/first/checkpoints/step-00000100 --data data/demo/test -o test.nc");
  command->add_option("checkpoint", a->from, "A run's directory, or one checkpoint")->required();
  command->add_option("-o,--out", a->out, "netCDF file to write, or NumPy's .npz")->required();
  command->add_option("--data", a->data, "Files to read, as data.valid [the run's validation data]");
  command->add_option("--samples", a->samples, "Only the first N [all]")->check(CLI::Range(1, 1 << 30));
  command->add_option("--steps", a->steps, "Steps of data.dt, each prediction being the next input [1]")
      ->check(CLI::Range(1, 10000));
  command->add_option("--batch", a->batch, "Samples at once [1; 256 rows of a table]")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--threads", a->threads, "Threads [all cores]")->check(CLI::Range(1, 4096));
  command->add_flag("--force", a->force, "Replace the file");
  command->add_flag("--json", a->json, "Print the errors as JSON");
  command->callback([a] { run_forecast(*a); });
}

}  // namespace isobar
