// isobar forecast: a trained net's predictions of samples, as a CF netCDF file, and their errors.
#include <omp.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/commands.h"
#include "bench/cli/words/options.h"
#include "model/base/error.h"
#include "model/base/text/json.h"
#include "model/engine/host/host.h"
#include "model/forecast/forecast_samples.h"
#include "model/forecast/forecast_steps.h"

namespace isobar::cli {
namespace {

struct Arguments {
  std::string from, data, out;
  int64_t samples = 0, batch = 0, threads = 0, steps = 1;
  bool force = false, json = false;
};

void say_classes(const Arguments& a, const forecast::NetAndData& from,
                 const forecast::ForecastScores& scores) {
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

void run_steps(const Arguments& a, const forecast::NetAndData& opened, int threads) {
  const auto& [checkpoint, state, set] = opened;
  const forecast::StepScores scores = forecast::forecast_steps({a.out, a.batch, threads, !a.json}, opened);
  const std::vector<std::string> units = set->coordinates().units;
  nlohmann::json steps = nlohmann::json::array();
  for (size_t k = 0; k < scores.loss.size(); ++k) {
    nlohmann::json channels = nlohmann::json::array();
    for (size_t c = 0; c < state.channels.targets.size(); ++c) {
      const inference::NetChannel& target = state.channels.targets[c];
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
  const forecast::NetAndData opened = forecast::open_net_and_data(a.from, a.data, a.samples, a.steps);
  const auto& [checkpoint, state, set] = opened;
  const DataSpec& d = state.spec.data;
  const data::SampleShape shape = set->shape();
  const int threads = a.threads > 0 ? static_cast<int>(a.threads) : engine::cores();
  omp_set_num_threads(threads);
  if (a.batch == 0) a.batch = shape.of_table ? 256 : 1;
  if (a.steps > 1) return run_steps(a, opened, threads);
  const forecast::ForecastScores scores =
      forecast::forecast_samples({a.out, a.batch, threads, !a.json}, opened);

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
      "channels, "
      "grid\nand step. The file holds each target in its own units; what is printed is the error against the "
      "truth, with the\nformulas of the validation. For a classifier it holds the most probable class and "
      "the "
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

}  // namespace isobar::cli
