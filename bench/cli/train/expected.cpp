#include "bench/cli/train/expected.h"

#include "model/base/error.h"
#include "model/base/system/shared_files.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/fitting/settings_fit.h"
#include "perfmodel/machine/machine_file.h"

namespace isobar::cli {

std::optional<records::ExpectedStep> expected_on(const perf::Machine& machine, const RunSpec& spec,
                                                 const perf::HostShare& host) {
  // Memory is not asked for, so the closed form does.
  const perf::Prediction p =
      perf::predict(spec, machine, {.host = host, .campaign = "", .closed_form = true});
  return records::ExpectedStep{p.step_s, p.lower, p.upper, "predicted by " + machine.file};
}

std::optional<records::ExpectedStep> expected_of(const TrainArguments& a, const RunSpec& spec) {
  if (a.machine.empty() && a.fit.empty()) return std::nullopt;
  const std::string wrong = spec.run.by_settings ? a.machine : a.fit;
  if (!wrong.empty())
    throw ConfigError(spec.run.by_settings ? "--machine" : "--fit", "",
                      spec.run.by_settings ? "prices a net, and none is described"
                                           : "is of runs without a net, and this one has one",
                      spec.run.by_settings ? "give --fit FITTED of isobar fit" : "give --machine");
  if (!spec.run.by_settings) return expected_on(perf::load_machine(a.machine), spec, {});
  const perf::StepRange r = perf::SettingsFit::from_json(read_json(a.fit), a.fit)(spec);
  return records::ExpectedStep{r.seconds, r.lower, r.upper, "predicted by " + a.fit};
}

}  // namespace isobar::cli
