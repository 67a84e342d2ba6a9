#include "bench/cli/train/expected.h"

#include "model/base/error.h"
#include "model/base/system/shared_files.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/fitting/settings_fit.h"
#include "perfmodel/machine/machine_file.h"

namespace isobar {

std::optional<ExpectedStep> expected_on(const Machine& machine, const RunSpec& spec, const HostShare& host) {
  // Memory is not asked for, so the closed form does.
  const Prediction p = predict(spec, machine, {.host = host, .campaign = "", .closed_form = true});
  return ExpectedStep{p.step_s, p.lower, p.upper, "predicted by " + machine.file};
}

std::optional<ExpectedStep> expected_of(const TrainArguments& a, const RunSpec& spec) {
  if (a.machine.empty() && a.fit.empty()) return std::nullopt;
  const std::string wrong = spec.run.by_settings ? a.machine : a.fit;
  if (!wrong.empty())
    throw ConfigError(spec.run.by_settings ? "--machine" : "--fit", "",
                      spec.run.by_settings ? "prices a net, and none is described"
                                           : "is of runs without a net, and this one has one",
                      spec.run.by_settings ? "give --fit FITTED of isobar fit" : "give --machine");
  if (!spec.run.by_settings) return expected_on(load_machine(a.machine), spec, {});
  const StepRange r = SettingsFit::from_json(read_json(a.fit), a.fit)(spec);
  return ExpectedStep{r.seconds, r.lower, r.upper, "predicted by " + a.fit};
}

}  // namespace isobar
