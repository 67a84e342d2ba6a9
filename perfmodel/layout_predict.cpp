#include "perfmodel/layout_predict.h"

#include <algorithm>
#include <cmath>

#include "model/base/error.h"
#include "perfmodel/fitting/layout_fit.h"

namespace isobar {
namespace {

// Log spread of predictions that were never fitted to whole steps: tuned engines differ by that much on
// machines of one kind (published runs on A100, H100, B200 and GB200;
// tests/import/shipped_machines_test.cpp).
constexpr double kUnfitted = 0.2;

// How the interval follows from what is known of each coefficient.
double log_width(LayoutModel& model, const Layout& l, double seconds) {
  const Machine machine = model.machine();
  const Counts k = machine.values();
  double variance = kUnfitted * kUnfitted;
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
  Counts parts{};  // compute by what it is spent on: the counts at their prices
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
                     {term::kSlowdown, c.slowdown},
                     {term::kBubble, c.bubble},
                     {term::kTransfers, c.pp},
                     {term::kData, c.dp},
                     {term::kReading, c.data},
                     {term::kImbalance, c.imbalance}},
                    correction);
}

}  // namespace

LayoutPrediction predict_layout(LayoutModel& model, const Layout& l, const std::string& campaign) {
  const RunSpec& spec = model.spec();
  const Machine& machine = model.machine();
  LayoutPrediction out;
  out.cost = model.cost(l, &out.counts);
  const LayoutCost& c = out.cost;
  refuse_above_ceiling(c.seconds, c.ceiling, machine);
  out.step_s = c.seconds;
  StepView view = view_of(model, with_layout(spec, l));
  view.effects.push_back(campaign_effect(campaign));
  if (machine.fit) {
    const Machine fitted = machine;
    const Estimate e = estimate(view, fitted);
    model.set_coefficients(fitted.values());
    out.step_s = e.seconds, out.lower = e.lower, out.upper = e.upper;
    out.correction = e.seconds / e.physics;
  } else {
    const double width = std::exp(log_width(model, l, c.seconds));
    out.lower = std::max(c.seconds / width, std::min(c.ceiling, c.seconds));
    out.upper = c.seconds * width;
  }
  out.warnings = extrapolations(view, machine);
  out.samples_per_s = static_cast<double>(spec.train.global_batch) / out.step_s;
  out.tokens_per_s = out.samples_per_s * static_cast<double>(spec.net.tokens());
  out.flops = c.flops;
  out.terms = terms_of(c, out.counts, model.prices(), out.correction);
  out.checkpoint =
      checkpoint_cost(with_layout(spec, l), model.parameters(l), machine, model.where().ranks_on_host);
  out.memory = {{"parameters, gradients, optimizer", c.persistent},
                {"activations", c.saved},
                {"scratch", c.scratch},
                {"process", c.process}};
  out.memory_total = c.memory;
  return out;
}

LayoutPrediction predict_layout(const RunSpec& spec, const Machine& machine, const std::string& campaign) {
  validate(spec);
  LayoutModel model(spec, machine);
  return predict_layout(model, layout_of(spec), campaign);
}

}  // namespace isobar
