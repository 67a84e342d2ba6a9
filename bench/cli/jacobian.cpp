// isobar jacobian: sensitivities of a trained net's predictions to its inputs, sample by sample.
#include "model/inference/jacobian.h"
#include "model/base/json.h"

#include <omp.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "bench/cli/commands.h"
#include "bench/cli/net_and_data.h"
#include "model/base/error.h"
#include "model/base/progress.h"
#include "model/data/forecast_file.h"
#include "model/engine/host/host.h"
#include "model/engine/validation/jacobian_statistics.h"

namespace isobar {
namespace {

struct JacobianArguments {
  std::string from, data, out;
  std::vector<int64_t> point;
  int64_t samples = 100, threads = 0;
  bool force = false, json = false;
};

// Elements of a sample's prediction to differentiate: every target, of fields at one point.
std::vector<int64_t> rows_of(const JacobianArguments& a, const SampleShape& shape) {
  const int64_t points = shape.target.height * shape.target.width;
  int64_t at = 0;
  if (shape.of_table && !a.point.empty())
    throw ConfigError("isobar jacobian", "--point", "is for nets of fields, and this one reads numbers",
                      "leave it out");
  if (!shape.of_table) {
    if (a.point.empty())
      throw ConfigError("isobar jacobian", "--point",
                        "is missing: of fields, the Jacobian is that of the targets at one point",
                        "e.g. --point " + std::to_string(shape.target.height / 2) + "," +
                            std::to_string(shape.target.width / 2));
    if (a.point[0] < 0 || a.point[0] >= shape.target.height || a.point[1] < 0 ||
        a.point[1] >= shape.target.width)
      throw ConfigError("isobar jacobian", "--point", "is not on the grid",
                        "give ROW,COLUMN below " + std::to_string(shape.target.height) + "," +
                            std::to_string(shape.target.width));
    at = a.point[0] * shape.target.width + a.point[1];
  }
  std::vector<int64_t> rows;
  const int64_t outputs = shape.classes > 0 ? shape.classes : shape.target.channels;
  for (int64_t c = 0; c < outputs; ++c) rows.push_back(c * points + at);
  return rows;
}

std::string units_of(const NetChannel& y, const NetChannel& x) {
  return y.units.empty() || x.units.empty() ? "" : "(" + y.units + ") / (" + x.units + ")";
}

// Converts [outputs, inputs, H, W] of a sample to physical units.
void to_physical(const std::vector<NetChannel>& inputs, const std::vector<NetChannel>& outputs,
                 int64_t points, std::vector<float>& rows) {
  for (size_t y = 0; y < outputs.size(); ++y)
    for (size_t x = 0; x < inputs.size(); ++x) {
      const float scale = outputs[y].std / inputs[x].std;
      float* first = rows.data() + static_cast<int64_t>(y * inputs.size() + x) * points;
      for (int64_t i = 0; i < points; ++i) first[i] *= scale;
    }
}

void run_jacobian(const JacobianArguments& a) {
  refuse_to_replace(a.out, a.force);
  const NetAndData from = open_net_and_data(a.from, a.data, a.samples);
  const SampleShape shape = from.set->shape();
  const NetChannels& channels = from.state.channels;
  const std::vector<NetChannel> outputs = outputs_of(channels, shape.classes);
  const std::vector<int64_t> which = rows_of(a, shape);
  const int threads = a.threads > 0 ? static_cast<int>(a.threads) : cores();
  omp_set_num_threads(threads);
  Jacobian jacobian(from.state.spec, static_cast<int64_t>(outputs.size()), threads);
  jacobian.take_weights(Forecaster(from.checkpoint, from.state, 1, threads));

  const int64_t points = shape.input.height * shape.input.width;
  Coordinates at = from.set->coordinates();
  at.units.clear();
  std::vector<std::string> names;
  for (const NetChannel& y : outputs)
    for (const NetChannel& x : channels.inputs) {
      names.push_back("d_" + y.name + "_d_" + x.name);
      at.units.push_back(units_of(y, x));
    }
  std::map<std::string, std::string> about = {{"title", "Jacobians of " + from.checkpoint.string()},
                                              {"source", "Isobar, net.kind " + from.state.spec.net.kind()},
                                              {"history", utc_now() + " isobar jacobian"}};
  if (!a.point.empty())
    about["point"] = "row " + std::to_string(a.point[0]) + ", column " + std::to_string(a.point[1]);
  SampleShape file_shape = shape;
  file_shape.target = {static_cast<int64_t>(names.size()), shape.input.height, shape.input.width};
  ForecastFile file(a.out, about, from.set->size(), file_shape, names, at, "derivative ");
  Progress bar("jacobians", from.set->size(), !a.json);
  std::vector<float> input(shape.input.size()), target(shape.target.size());
  std::vector<std::vector<float>> samples;
  for (int64_t i = 0; i < from.set->size(); ++i) {
    from.read(i, input.data(), target.data());
    std::vector<float> rows = jacobian.rows(input.data(), which);
    samples.push_back(rows);
    to_physical(channels.inputs, outputs, points, rows);
    file.append(rows.data(), from.set->target_time(i));
    bar.update(i + 1);
  }
  file.finish();
  bar.finish();

  const JacobianRecord r = statistics_of(samples, static_cast<int64_t>(which.size()), shape.input.size());
  nlohmann::json inputs = nlohmann::json::array();
  for (size_t x = 0; x < channels.inputs.size(); ++x) {
    const auto first = r.sensitivity.begin() + static_cast<int64_t>(x) * points;
    inputs.push_back({{"name", channels.inputs[x].name},
                      {"units", channels.inputs[x].units},
                      {"sensitivity", std::accumulate(first, first + points, 0.0)}});
  }
  if (a.json) {
    nlohmann::json said = {{"checkpoint", from.checkpoint.string()},
                           {"out", a.out},
                           {"samples", from.set->size()},
                           {"frobenius", r.frobenius},
                           {"mean", r.mean},
                           {"max", r.max},
                           {"std", r.std},
                           {"inputs", inputs}};
    if (r.condition) said["condition"] = *r.condition;
    std::cout << json_text(said, 2) << "\n";
    return;
  }
  std::printf(
      "checkpoint  %s, after step %ld\nsamples     %ld\n"
      "jacobian    norm %.5g, condition %s, largest element %.5g (normalised on both sides)\n\n"
      "%-16s %12s\n",
      from.checkpoint.c_str(), from.state.train.step, from.set->size(), r.frobenius,
      r.condition ? std::to_string(*r.condition).c_str() : "infinite", r.max, "input", "mean |dy/dx|");
  for (const auto& x : inputs)
    std::printf("%-16s %12.5g\n", x["name"].get<std::string>().c_str(), x["sensitivity"].get<double>());
  std::printf("\nwritten     %s, in physical units\n", a.out.c_str());
}

}  // namespace

void add_jacobian_command(CLI::App& app) {
  auto a = std::make_shared<JacobianArguments>();
  CLI::App* command =
      app.add_subcommand("jacobian", "Differentiate a trained net's predictions by its inputs");
  command->footer(
      "d(prediction)/d(input) of a checkpoint's net for each sample of the data, by its backward pass in "
      "fp32: a "
      "netCDF file\nwith a variable d_TARGET_d_INPUT in physical units; printed are statistics over the "
      "samples, "
      "normalised by the standard\ndeviations of both sides, so that inputs can be compared. Of a net of "
      "fields it "
      "is that of each target at one point,\na field of each input (of which the printed sensitivity is the "
      "sum). For a classifier it is that of the logits.\n\n"
      "  isobar jacobian runs/emulator -o jacobian.nc\n"
      "  isobar jacobian runs/first -o jacobian.nc --point 90,180 --samples 4");
  command->add_option("checkpoint", a->from, "A run's directory, or one checkpoint")->required();
  command->add_option("-o,--out", a->out, "netCDF file to write")->required();
  command->add_option("--data", a->data, "Files to read, as data.valid [the run's validation data]");
  command->add_option("--samples", a->samples, "Only the first N [100]")->check(CLI::Range(1, 1 << 24));
  command
      ->add_option("--point", a->point,
                   "For fields: ROW,COLUMN of the grid point whose prediction is differentiated")
      ->delimiter(',')
      ->expected(2);
  command->add_option("--threads", a->threads, "Threads [all cores]")->check(CLI::Range(1, 4096));
  command->add_flag("--force", a->force, "Replace the file");
  command->add_flag("--json", a->json, "Print the figures as JSON");
  command->callback([a] { run_jacobian(*a); });
}

}  // namespace isobar
