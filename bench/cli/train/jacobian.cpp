// isobar jacobian: sensitivities of a trained net's predictions to its inputs, sample by sample.
#include <omp.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/commands.h"
#include "bench/cli/words/options.h"
#include "model/base/text/json.h"
#include "model/engine/host/host.h"
#include "model/forecast/jacobians.h"

namespace isobar::cli {
namespace {

struct JacobianArguments {
  std::string from, data, out;
  std::vector<int64_t> point;
  int64_t samples = 100, threads = 0;
  bool force = false, json = false;
};

void run_jacobian(const JacobianArguments& a) {
  refuse_to_replace(a.out, a.force);
  const forecast::NetAndData from = forecast::open_net_and_data(a.from, a.data, a.samples);
  const int threads = a.threads > 0 ? static_cast<int>(a.threads) : engine::cores();
  omp_set_num_threads(threads);
  const forecast::JacobianAnswer answer = forecast::write_jacobians({a.out, a.point, threads, !a.json}, from);
  const records::JacobianRecord& r = answer.statistics;
  nlohmann::json inputs = nlohmann::json::array();
  for (const forecast::InputSensitivity& x : answer.inputs)
    inputs.push_back({{"name", x.name}, {"units", x.units}, {"sensitivity", x.sensitivity}});
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

}  // namespace isobar::cli
