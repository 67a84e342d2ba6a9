// How unevenly tokens are taken to go to experts, of a configuration's runs: the largest expert's share of a
// sample over the mean. Plans count the busiest rank by it (Experts).
//
//   const std::vector<nets::StageProgram> stages = nets::stages_of(as_priced(spec, machine), {});
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "perfmodel/machine/machine.h"

namespace isobar::perf {

RunSpec with_imbalance(RunSpec spec, double imbalance);
/// net.expert_imbalance; where that is not said, the middle of what runs of as many experts measured for the
/// machine's fit; 0: not known, taken as even.
double imbalance_of(const RunSpec& spec, const Machine& machine);
/// The configuration with that said.
RunSpec as_priced(const RunSpec& spec, const Machine& machine);
/// Lowest and highest of those runs, where that is what is taken and the layout divides experts; else
/// nullptr.
const std::vector<double>* unsaid_imbalance(const RunSpec& spec, const Machine& machine);
/// A note on what is taken where nothing is said; "": it is said, or the layout does not divide experts.
std::string assumed_imbalance(const RunSpec& spec, const Machine& machine);
/// Quantities of a fit's range (fit.h: quantities_of); none without experts.
std::map<std::string, double> expert_quantities_of(const RunSpec& spec);

}  // namespace isobar::perf
