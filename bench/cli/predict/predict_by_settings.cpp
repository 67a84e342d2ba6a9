// isobar predict of a run whose net is not described: by a fit to runs of other settings.
#include "bench/cli/predict/predict_by_settings.h"

#include <cstdio>

#include "bench/cli/words/options.h"
#include "model/base/error.h"
#include "model/base/system/shared_files.h"
#include "model/base/text/json.h"
#include "perfmodel/fitting/settings_fit.h"

namespace isobar::cli {
namespace {

bool is_of_settings(const std::string& fit) {
  const nlohmann::json j = json_if_there(fit);
  return j.is_object() && j.contains("by_settings");
}

void refuse_what_prices_nets(const CLI::App& command) {
  for (const CLI::Option* o : command.get_options()) {
    const std::string name = o->get_name();
    if (o->count() == 0 || name == "CONFIG" || name == "--set" || name == "--fit" || name == "--json" ||
        name == "--global-batch")
      continue;
    throw ConfigError("isobar predict", name, "is of a net, and the fit is by settings alone",
                      "leave it out");
  }
}

}  // namespace

bool predicted_by_settings(const CLI::App& command, const AskArguments& a) {
  const bool fitted = !a.engine.fit.empty() && is_of_settings(a.engine.fit);
  std::vector<std::string> set = a.set;
  if (!a.global_batch.empty()) set.push_back("train.global_batch=" + a.global_batch);
  const RunSpec spec = load_run_spec(a.config, set);
  if (!fitted && spec.run.by_settings)
    throw ConfigError(a.config, "net", "is missing, so that the run is predicted by its settings alone",
                      "give --fit FITTED of `isobar fit RESULTS -o FITTED`, or describe the net");
  if (!fitted) return false;
  if (!spec.run.by_settings)
    throw ConfigError(a.engine.fit, "by_settings", "is of runs without a net, and " + a.config + " has one",
                      "leave --fit out, or take the configuration of those runs");
  refuse_what_prices_nets(command);
  const perf::SettingsFit fit = perf::SettingsFit::from_json(read_json(a.engine.fit), a.engine.fit);
  const perf::StepRange r = fit(spec);
  const double rate = static_cast<double>(spec.train.global_batch) / r.seconds;
  if (a.json) {
    std::printf("%s\n", json_text({{"by_settings", true},
                                   {"runs", fit.ids().size()},
                                   {"step_s", r.seconds},
                                   {"lo_s", r.lower},
                                   {"hi_s", r.upper},
                                   {"samples_per_s", rate}},
                                  1)
                            .c_str());
    return true;
  }
  std::printf(
      "by settings: no net is described; fitted to %zu runs\n"
      "step        %.4g ms (80 %%: %.4g to %.4g)\nthroughput  %.4g samples/s\n",
      fit.ids().size(), 1e3 * r.seconds, 1e3 * r.lower, 1e3 * r.upper, rate);
  return true;
}

}  // namespace isobar::cli
