#include "perfmodel/ask/layout_predict.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <map>

#include "model/base/text/printed.h"
#include "perfmodel/fitting/layout_fit.h"
#include "perfmodel/step/expert_imbalance.h"

namespace isobar::perf {
namespace {

// Log spread of predictions that were never fitted to whole steps, by published runs of tuned engines on
// A100, H100, B200 and GB200 (tests/import/shipped_machines_test.cpp).
constexpr double kUnfittedLayout = 0.2;

// Sources of error without a fit: each price by itself, and what no price knows of a layout.
ErrorParts unfitted_errors(LayoutModel& model, const Layout& l) {
  const Machine machine = model.machine();
  const Counts k = machine.values();
  const double seconds = model.time(l).seconds;
  ErrorParts e{std::vector<double>(kCoefs), kUnfittedLayout};
  for (size_t i = 0; i < kCoefs; ++i) {
    Counts moved = k;
    moved[i] *= 1.1;
    model.set_coefficients(moved);
    const double slope = std::log(model.time(l).seconds / seconds) / std::log(1.1);
    e.shared[i] = slope * machine.coefficients[i].log_sigma();
  }
  model.set_coefficients(k);
  return e;
}

// The root of the covariance turns correlated prices into independent sources.
ErrorParts fitted_errors(const StepView& view, const Machine& m) {
  const ErrorSources source = error_sources(view, m);
  const std::vector<double> c = covariance_of(m);
  const auto n = static_cast<Eigen::Index>(source.gradient.size());
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(
      Eigen::Map<const Eigen::MatrixXd>(c.data(), n, n));
  const Eigen::Map<const Eigen::VectorXd> g(source.gradient.data(), n);
  const Eigen::VectorXd shared = source.scale * solver.eigenvalues().cwiseMax(0).cwiseSqrt().cwiseProduct(
                                                    solver.eigenvectors().transpose() * g);
  ErrorParts e{{shared.begin(), shared.end()}, source.scale * source.spread};
  for (const auto* far : {&source.groups, &source.far})
    for (const auto& [name, sigma] : *far) e.own = std::hypot(e.own, sigma);
  return e;
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

// The lines of a step whose prices are assumed and move it by more than 5 %.
std::string assumed_text(const ErrorParts& e, const Machine& m) {
  constexpr double kNamed = 0.05;
  std::map<std::string, double> variances;
  for (size_t i = 0; i < e.shared.size(); ++i)
    if (!m.coefficients[i].measured()) variances[info_of(i).term] += e.shared[i] * e.shared[i];
  std::string out;
  for (const auto& [term, variance] : variances)
    if (const double moved = std::expm1(kNormal80 * std::sqrt(variance)); moved > kNamed)
      out += (out.empty() ? "" : ", ") + term + " (" + printed("%.0f", 100 * moved) + " %)";
  return out.empty() ? "" : "prices assumed, not measured, and by how much the step may be longer: " + out;
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

ErrorParts error_parts(LayoutModel& model, const Layout& l) {
  if (!model.machine().fit && device_of(model.machine()) == Device::accelerator)
    return unfitted_errors(model, l);
  const Machine machine = model.machine();
  const ErrorParts e = fitted_errors(view_of(model, with_layout(model.spec(), l)), machine);
  model.set_coefficients(machine.values());
  return e;
}

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
    const ErrorParts errors = unfitted_errors(model, l);
    const double width = std::exp(kNormal80 * errors.sigma());
    out.errors = errors;
    if (std::string assumed = assumed_text(errors, machine); !assumed.empty())
      out.warnings.push_back(std::move(assumed));
    out.step_s = c.seconds;
    out.lower = std::max(c.seconds / width, std::min(c.ceiling, c.seconds));
    out.upper = c.seconds * width;
  }
  if (out.device == Device::accelerator)
    for (std::string& w : warnings_on_accelerators(spec, machine)) out.warnings.push_back(std::move(w));
  for (std::string& w : extrapolations(view, machine)) out.warnings.push_back(std::move(w));
  if (std::string w = assumed_imbalance(spec, machine); !w.empty()) out.warnings.push_back(std::move(w));
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

}  // namespace isobar::perf
