#include "perfmodel/step/expert_imbalance.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/base/text/printed.h"

namespace isobar::perf {
namespace {

constexpr const char* kExperts = "experts";
constexpr const char* kImbalance = "expert_imbalance";

bool has_experts(const RunSpec& spec) {
  return spec.net.kind() == LlamaSpec::kKind && spec.net.llama().has_experts();
}

bool leaves_open(const RunSpec& spec) {
  return has_experts(spec) && spec.layout.ep > 1 && spec.net.llama().experts.expert_imbalance == 0;
}

// Lowest and highest of the fit's runs; nullptr: none with as many experts.
const std::vector<double>* fitted(const RunSpec& spec, const Machine& m) {
  if (!m.fit) return nullptr;
  const auto experts = m.fit->range.find(kExperts), imbalance = m.fit->range.find(kImbalance);
  if (experts == m.fit->range.end() || imbalance == m.fit->range.end()) return nullptr;
  const auto own = static_cast<double>(spec.net.llama().experts.num_experts);
  return own < experts->second[0] || own > experts->second[1] ? nullptr : &imbalance->second;
}

}  // namespace

// Roundings of what was measured, and runs with fewer experts a token, may leave what the net can have.
RunSpec with_imbalance(RunSpec spec, double imbalance) {
  if (!has_experts(spec)) return spec;
  ExpertsSpec& x = spec.net.llama().experts;
  x.expert_imbalance = imbalance > 0 ? std::clamp(imbalance, 1.0, x.most_uneven()) : 0;
  return spec;
}

double imbalance_of(const RunSpec& spec, const Machine& m) {
  if (!has_experts(spec)) return 0;
  const ExpertsSpec& x = spec.net.llama().experts;
  if (x.expert_imbalance > 0) return x.expert_imbalance;
  const std::vector<double>* range = fitted(spec, m);
  return range ? std::min(std::sqrt((*range)[0] * (*range)[1]), x.most_uneven()) : 0;
}

RunSpec as_priced(const RunSpec& spec, const Machine& m) {
  return with_imbalance(spec, imbalance_of(spec, m));
}

const std::vector<double>* unsaid_imbalance(const RunSpec& spec, const Machine& m) {
  return leaves_open(spec) ? fitted(spec, m) : nullptr;
}

std::string assumed_imbalance(const RunSpec& spec, const Machine& m) {
  if (!leaves_open(spec)) return "";
  const std::vector<double>* range = fitted(spec, m);
  if (!range)
    return "experts are taken as even, so that no rank waits for a busier one; net.expert_imbalance says "
           "otherwise";
  return printed(
      "net.expert_imbalance is taken as %.3g, the middle of what the fit's runs measured "
      "(%.3g to %.3g)",
      imbalance_of(spec, m), (*range)[0], (*range)[1]);
}

std::map<std::string, double> expert_quantities_of(const RunSpec& spec) {
  if (!has_experts(spec)) return {};
  const ExpertsSpec& x = spec.net.llama().experts;
  std::map<std::string, double> all{{kExperts, static_cast<double>(x.num_experts)}};
  if (x.expert_imbalance > 0) all[kImbalance] = x.expert_imbalance;
  return all;
}

}  // namespace isobar::perf
