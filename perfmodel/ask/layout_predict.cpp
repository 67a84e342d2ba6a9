#include "perfmodel/ask/layout_predict.h"

#include <algorithm>
#include <cmath>

#include "perfmodel/fitting/layout_fit.h"

namespace isobar {
namespace {

// Log spread of predictions that were never fitted to whole steps, by published runs of tuned engines on
// A100, H100, B200 and GB200 (tests/import/shipped_machines_test.cpp).
constexpr double kUnfittedLayout = 0.2;

// The interval's log width from the uncertainty of each coefficient.
double log_width(LayoutModel& model, const Layout& l, double seconds) {
  const Machine machine = model.machine();
  const Counts k = machine.values();
  double variance = kUnfittedLayout * kUnfittedLayout;
  for (size_t i = 0; i < kCoefs; ++i) {
    Counts moved = k;
    moved[i] *= 1.1;
    model.set_coefficients(moved);
    const double slope = std::log(model.cost(l).seconds / seconds) / std::log(1.1);
    variance += std::pow(slope * machine.coefficients[i].log_sigma(), 2);
  }
  model.set_coefficients(k);
  return kNormal80 * std::sqrt(variance);
}

std::vector<Term> terms_of(const LayoutCost& c, const Counts& counts, const Counts& k, double correction) {
  Counts parts{};  // priced counts: compute by purpose
  double named = 0;
  for (size_t i = 0; i < kCoefs; ++i) {
    const Resource r = info_of(i).resource;
    if (r == Resource::wire || r == Resource::host || i == index_of(Coef::step) ||
        i == index_of(Coef::optimizer))
      continue;
    parts[i] = counts[i] * k[i];
    named += parts[i];
  }
  parts[index_of(Coef::host_op)] = c.host;
  parts[index_of(Coef::optimizer)] = c.optimizer;
  parts[index_of(Coef::step)] = c.step;
  return name_terms(parts,
                    {{term::kBoundaries, c.compute - named},
                     {term::kTensor, c.tp},
                     {term::kContext, c.cp},
                     {term::kExperts, c.ep},
                     {term::kSlowdown, c.slowdown},
                     {term::kBubble, c.bubble},
                     {term::kTransfers, c.pp},
                     {term::kData, c.dp},
                     {term::kReading, c.data},
                     {term::kImbalance, c.imbalance}},
                    correction);
}

std::vector<std::string> warnings_on_accelerators(const RunSpec& spec, const Machine& m) {
  std::vector<std::string> out;
  if (const std::string only = prediction_only(m); !only.empty()) out.push_back(only);
  if (const Coef gemm = gemm_of(spec); !m[gemm].measured()) {
    const double share = 1 / (m[gemm].value * m.peaks.at(peak_of(spec)).value);
    out.push_back(std::string("matmul rate never measured: ") + info_of(gemm).name + " takes " +
                  std::to_string(std::lround(100 * share)) +
                  " % of the spec sheet's peak, and the interval is as wide as vendors' sheets differ from "
                  "what was measured");
  }
  return out;
}

}  // namespace

Prediction predict_layout(LayoutModel& model, const Layout& l, const std::string& campaign) {
  const RunSpec spec = with_layout(model.spec(), l);
  const Machine machine = model.machine();
  Prediction out;
  out.device = device_of(machine);
  out.where = model.where();
  out.where.stages = l.pp;
  const LayoutCost c = model.cost(l, &out.counts);
  refuse_above_ceiling(c.seconds, c.ceiling, machine);
  out.ceiling_s = c.ceiling;
  StepView view = view_of(model, spec);
  if (out.device == Device::accelerator) view.effects.push_back(campaign_effect(campaign));
  if (machine.fit || out.device == Device::cores) {
    const Estimate e = estimate(view, machine);
    model.set_coefficients(machine.values());
    out.step_s = e.seconds, out.lower = e.lower, out.upper = e.upper;
    out.correction = e.seconds / e.physics;
  } else {
    const double width = std::exp(log_width(model, l, c.seconds));
    out.step_s = c.seconds;
    out.lower = std::max(c.seconds / width, std::min(c.ceiling, c.seconds));
    out.upper = c.seconds * width;
  }
  if (out.device == Device::accelerator) out.warnings = warnings_on_accelerators(spec, machine);
  for (std::string& w : extrapolations(view, machine)) out.warnings.push_back(std::move(w));
  out.samples_per_s = static_cast<double>(spec.train.global_batch) / out.step_s;
  out.tokens_per_s = out.samples_per_s * static_cast<double>(spec.net.tokens());
  out.hardware_flops = c.flops;
  out.terms = terms_of(c, out.counts, model.prices(), out.correction);
  out.checkpoint = checkpoint_cost(spec, model.parameters(l), machine, model.where().ranks_on_host);
  const auto add = [&out](const char* name, double bytes) {
    out.memory.emplace_back(name, std::llround(bytes));
    out.memory_total += out.memory.back().second;
  };
  add("parameters, gradients, optimizer", c.persistent);
  add("activations", c.saved);
  add("scratch", c.scratch);
  add("process", c.process);
  if (c.nccl > 0) add("NCCL's buffers (estimate)", c.nccl);
  out.memory_there = memory_of_rank(machine, model.where().ranks_on_host);
  return out;
}

}  // namespace isobar
