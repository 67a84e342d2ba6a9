// The step time that a training is compared with as it goes (model/records/advice.h): predicted by --machine,
// or by settings alone with --fit.
#pragma once
#include <optional>

#include "bench/cli/train/train_arguments.h"
#include "model/records/advice.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/step/conditions.h"

namespace isobar::cli {

std::optional<records::ExpectedStep> expected_on(const perf::Machine& machine, const RunSpec& spec,
                                                 const perf::HostShare& host);
/// The same of a run.command; nothing where neither option is given. Throws ConfigError for the wrong one of
/// the two.
std::optional<records::ExpectedStep> expected_of(const TrainArguments& a, const RunSpec& spec);

}  // namespace isobar::cli
