// isobar verify: the skill of a trained net's forecasts by lead time, beside persistence and climatology.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/commands.h"
#include "model/base/error.h"
#include "model/base/text/json.h"
#include "model/engine/host/host.h"
#include "model/forecast/verify.h"
#include "reports/pages/pages.h"

namespace isobar::cli {
namespace {

struct VerifyArguments {
  forecast::VerifyQuestion question;
  std::string out;
  std::vector<std::string> thresholds;
  int64_t threads = 0;
  bool json = false;
};

std::map<std::string, std::vector<double>> parsed(const std::vector<std::string>& thresholds) {
  std::map<std::string, std::vector<double>> out;
  for (const std::string& t : thresholds) {
    const size_t at = t.find('=');
    double value = 0;
    if (at == std::string::npos || at == 0 || !CLI::detail::lexical_cast(t.substr(at + 1), value) ||
        !std::isfinite(value))
      throw ConfigError("isobar verify", "--threshold", "'" + t + "' is no threshold",
                        "give TARGET=VALUE in the target's units, e.g. t2m=273.15");
    std::vector<double>& of_target = out[t.substr(0, at)];
    if (std::find(of_target.begin(), of_target.end(), value) != of_target.end())
      throw ConfigError("isobar verify", "--threshold", "'" + t + "' is given twice", "give it once");
    of_target.push_back(value);
  }
  return out;
}

void run_verify(VerifyArguments a) {
  forecast::VerifyQuestion& q = a.question;
  q.threads = a.threads > 0 ? static_cast<int>(a.threads) : engine::cores();
  q.thresholds = parsed(a.thresholds);
  q.bar = !a.json;
  omp_set_num_threads(q.threads);
  const skill::Verification v = forecast::verify(q);
  if (!v.no_climatology.empty())
    std::fprintf(stderr, "isobar: no climatology, and no ACC: %s; or name data: --climatology PATH\n",
                 v.no_climatology.c_str());
  if (a.json) {
    std::cout << json_text(report::json_of(v), 2) << "\n";
  } else {
    std::printf("checkpoint  %s, after step %ld\nsamples     %ld of %s\n", v.checkpoint.c_str(),
                v.trained_steps, v.samples, v.of_data.c_str());
    if (v.climatology_fields > 0)
      std::printf("climatology mean of %ld fields by hour of the day, %s\n", v.climatology_fields,
                  q.climatology.empty() ? "of the training data" : ("of " + q.climatology).c_str());
    std::printf("\n%s\n", report::to_text(report::skill_table(v)).c_str());
    if (const report::Table classes = report::class_table(v); !classes.rows.empty())
      std::printf("%s\n", report::to_text(classes).c_str());
    std::printf("%s", report::to_text(report::cases_table(v, 3)).c_str());
  }
  if (!a.out.empty()) {
    const std::string not_drawn = report::write_verify_page(a.out, v);
    if (!a.json) std::printf("\npage        %s\n", (std::filesystem::path(a.out) / "index.html").c_str());
    if (!not_drawn.empty()) std::fprintf(stderr, "isobar: figures are not drawn: %s\n", not_drawn.c_str());
  }
}

}  // namespace

void add_verify_command(CLI::App& app) {
  auto a = std::make_shared<VerifyArguments>();
  CLI::App* command =
      app.add_subcommand("verify", "Verify a trained net: skill by lead time, beside its baselines");
  command->footer(
      "Rolls the net of a checkpoint forward from every sample of its validation data (or --data), each "
      "prediction "
      "being the next input,\nand compares each lead with the truth: RMSE, MAE, bias and correlation "
      "weighted by "
      "area, the anomaly correlation (ACC)\nagainst the climatology, with --threshold by class of the "
      "truth the RMSE and the critical success index (CSI).\nBeside it stand persistence (nothing "
      "changes)\nand the climatology itself (the mean of the "
      "training "
      "data by hour of the day). -o makes a page: the same against lead\ntime, maps of the error, zonal "
      "spectra, "
      "errors by date.\n\n"
      "  isobar verify runs/first --steps 4 -o reports/out/skill         leads of 1 to 4 data.dt\n"
      "  isobar verify runs/first --data era5-2020.zarr --climatology era5-1990-2019.zarr\n"
      "  isobar verify runs/first --threshold t2m=273.15                 frost and what is warmer, each by "
      "itself\n"
      "  isobar verify runs/rain --threshold tp=1 --threshold tp=10 --threshold tp=25\n"
      "  isobar verify runs/first --region 55,-4,51,1                    only points inside count");
  command->add_option("checkpoint", a->question.from, "A run's directory, or one checkpoint")->required();
  command->add_option("--steps", a->question.steps, "Leads, in data.dt [the run's train.rollout]")
      ->check(CLI::Range(1, 10000));
  command->add_option("--data", a->question.data,
                      "Files to judge by, as data.valid [the run's validation data]");
  command->add_option("--climatology", a->question.climatology,
                      "Files whose mean is the climatology [the run's training data]");
  command
      ->add_option(
          "--threshold", a->thresholds,
          "TARGET=VALUE: RMSE below and above the value, CSI of the class above; several values make "
          "more classes")
      ->allow_extra_args(false);
  command
      ->add_option("--region", a->question.region,
                   "North,west,south,east in degrees: only its points count [all that are predicted]")
      ->delimiter(',')
      ->expected(4);
  command->add_option("--samples", a->question.samples, "Only the first N [all]")
      ->check(CLI::Range(1, 1 << 30));
  command->add_option("--threads", a->threads, "Threads [all cores]")->check(CLI::Range(1, 4096));
  command->add_option("-o,--out", a->out, "Directory of a page with figures and CSV tables");
  command->add_flag("--json", a->json, "Print all scores as JSON");
  command->callback([a] { run_verify(*a); });
}

}  // namespace isobar::cli
