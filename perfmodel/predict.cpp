#include "perfmodel/predict.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <stdexcept>

#include "perfmodel/fitting/fit.h"
#include "perfmodel/fitting/least_squares.h"
#include "perfmodel/step/pipeline.h"

namespace isobar {
namespace {

// Log spread that is expected of predictions from coefficients that were never fitted to whole steps.
constexpr double kUnfitted = 0.12;
constexpr double kExtrapolation = 0.08;  // more log sigma for each factor of e outside of what was fitted

double outside(double value, const std::vector<double>& range) {
  if (value > range[1]) return std::log(value / range[1]);
  if (value < range[0]) return std::log(range[0] / value);
  return 0;
}

std::vector<Term> terms_of(const StepCost& s, double correction) {
  Counts parts = s.parts;
  for (size_t i = 0; i < kCoefs; ++i)  // of communication, only what computation waits for
    if (info_of(i).resource == Resource::wire) parts[i] = 0;
  return name_terms(parts,
                    {{term::kExposed, s.exposed},
                     {term::kSlowdown, s.slowdown},
                     {term::kBubble, s.bubble},
                     {term::kImbalance, s.imbalance},
                     {term::kReading, s.read_serial},
                     {term::kStolen, s.stolen},
                     {term::kDataWait, s.data_wait}},
                    correction);
}

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", v);
  return text;
}

std::vector<std::string> warnings_of(const RunSpec& spec, const StepTerms& terms, const Machine& m,
                                     const StepCost& s, int64_t memory) {
  std::vector<std::string> out = extrapolations(view_of(spec, terms, m), m);
  for (size_t i = 0; i < kCoefs; ++i) {
    const auto& from = m.coefficients[i].provenance;
    if ((from.empty() || from.front() == "spec") && s.parts[i] > 0.05 * s.total)
      out.push_back(std::string(info_of(i).name) + " was never measured on this machine, and sets " +
                    number(std::round(100 * s.parts[i] / s.total)) + " % of the step");
  }
  if (!m.accelerator && (spec.policy.amp == "tf32" || spec.policy.amp == "fp16"))
    out.push_back("policy.amp " + spec.policy.amp + " is emulated on CPUs: priced as " +
                  (spec.policy.amp == "tf32" ? "fp32" : "bf16") +
                  ", without the passes that round the operands");
  const double host = static_cast<double>(memory) * static_cast<double>(terms.where.ranks_on_host);
  if (host > static_cast<double>(m.identity.memory_bytes))
    out.push_back("needs " + number(std::round(host / 1e8) / 10) + " GB on a host of " +
                  number(std::round(static_cast<double>(m.identity.memory_bytes) / 1e8) / 10) +
                  " GB: will run out of memory");
  if (terms.where.threads * terms.where.ranks_on_host > terms.where.cores)
    out.emplace_back("more compute threads than cores: they take turns");
  return out;
}

}  // namespace

std::vector<std::string> extrapolations(const StepView& step, const Machine& m) {
  if (!m.fit) return {"the machine's coefficients were never fitted to runs: wide interval (see isobar fit)"};
  std::vector<std::string> out;
  for (const auto& [name, value] : step.quantities)
    if (const auto r = m.fit->range.find(name); r != m.fit->range.end() && outside(value, r->second) > 0) {
      const double off = name == "loader_threads" ? 1 : 0;  // the reading thread counts as one there
      out.push_back(name + " " + number(value - off) + " lies outside of the fitted runs (" +
                    number(r->second[0] - off) + " to " + number(r->second[1] - off) + "): wider interval");
    }
  return out;
}

std::vector<double> covariance_of(const Machine& m) {
  if (m.fit) return m.fit->covariance;
  const Eigen::MatrixXd c = prior_of(m, 0.2).covariance;
  return {c.data(), c.data() + c.size()};
}

ErrorSources error_sources(const RunSpec& spec, const StepTerms& terms, const Machine& m) {
  return error_sources(view_of(spec, terms, m), m);
}

ErrorSources error_sources(const StepView& step, const Machine& m) {
  const Eigen::VectorXd g = log_gradient(step.seconds, m.values());
  ErrorSources e{.gradient = {g.data(), g.data() + g.size()}, .spread = kUnfitted};
  if (!m.fit) return e;
  const auto& effects = m.fit->effects;
  e.gradient.resize(kCoefs + effects.size(), 0);
  for (const std::string& name : step.effects) {
    const auto at =
        std::find_if(effects.begin(), effects.end(), [&](const auto& x) { return x.first == name; });
    if (at == effects.end()) {
      const auto sigma = m.fit->effect_sigma.find(family_of(name));
      if (sigma != m.fit->effect_sigma.end()) e.groups[name] = sigma->second;
      continue;
    }
    e.deviation += at->second;
    e.gradient[kCoefs + static_cast<size_t>(at - effects.begin())] += 1;
  }
  const auto own = m.fit->spread.find(step.kind);
  e.spread = own != m.fit->spread.end() ? own->second : 1.5 * m.fit->spread.at("all");
  e.scale = m.fit->quantile / kNormal80;
  double sum = 0;
  for (const auto& [name, value] : step.quantities)
    if (const auto r = m.fit->range.find(name); r != m.fit->range.end() && outside(value, r->second) > 0) {
      e.far[name] = outside(value, r->second);
      sum += e.far[name];
    }
  // Several at a time are worse than each for itself: together kExtrapolation * sum.
  for (auto& [name, off] : e.far) off = kExtrapolation * std::sqrt(off * sum);
  return e;
}

Estimate estimate(const RunSpec& spec, const StepTerms& terms, const Machine& m) {
  return estimate(view_of(spec, terms, m), m);
}

Estimate estimate(const StepView& step, const Machine& m) {
  Estimate e{.physics = step.seconds(m.values())};
  const ErrorSources error = error_sources(step, m);
  const std::vector<double> c = covariance_of(m);
  const auto size = static_cast<Eigen::Index>(error.gradient.size());
  const Eigen::Map<const Eigen::MatrixXd> covariance(c.data(), size, size);
  const Eigen::Map<const Eigen::VectorXd> g(error.gradient.data(), size);
  // The scale was learnt from runs inside the range: it says nothing about what lies beyond.
  double variance = error.scale * error.scale * (g.dot(covariance * g) + error.spread * error.spread);
  for (const auto& [name, sigma] : error.groups) variance += sigma * sigma;
  for (const auto& [name, sigma] : error.far) variance += sigma * sigma;
  const double log_width = kNormal80 * std::sqrt(variance);
  // Neither a learnt deviation nor an interval can leave what physics allows.
  const double ceiling = step.ceiling_s;
  e.seconds = std::max(e.physics * std::exp(error.deviation), std::min(ceiling, e.physics));
  e.lower = std::max(e.seconds / std::exp(log_width), std::min(ceiling, e.physics));
  e.upper = e.seconds * std::exp(log_width);
  return e;
}

void refuse_above_ceiling(double seconds, double ceiling_s, const Machine& m) {
  if (seconds < ceiling_s * (1 - 1e-9))
    throw std::logic_error("predicted step of " + number(seconds) +
                           " s is faster than the machine's peaks allow (" + number(ceiling_s) +
                           " s): wrong coefficients or peaks in " +
                           (m.file.empty() ? "the machine" : m.file));
}

Prediction predict(const RunSpec& spec, const Machine& m, const PredictOptions& options) {
  const std::vector<StageProgram> stages = stages_of(spec, options.workspace);
  const Memory memory = fullest(spec, options.workspace);
  Prediction p;
  p.where.ranks = spec.layout.world();
  p.where.stages = spec.layout.pp;
  p.where.ranks_on_host = options.ranks_on_host > 0 ? options.ranks_on_host : p.where.ranks;
  p.where.cores = m.identity.cores;
  p.where.threads =
      options.threads > 0 ? options.threads : threads_of(spec, p.where.cores, p.where.ranks_on_host);
  const StepTerms terms =
      count_pipeline(spec, stages, p.where, cache_share(m, p.where.ranks_on_host), m.values());
  const StepCost s = step_cost(terms, m.values());
  const Estimate e = estimate(spec, terms, m);
  p.step_s = e.seconds;
  p.lower = e.lower;
  p.upper = e.upper;
  p.flops = terms.flops_f32 + terms.flops_bf16;
  p.ceiling_s = ceiling_seconds(terms, m.peaks.at("f32").value, m.peaks.at("bf16").value);
  refuse_above_ceiling(e.physics, p.ceiling_s, m);
  p.samples_per_s = static_cast<double>(terms.samples) / p.step_s;
  p.correction = e.seconds / e.physics;
  p.terms = terms_of(s, p.correction);
  for (int k = 0; k < kBufferKinds; ++k)
    if (memory.by_kind[k] > 0) p.memory.emplace_back(name_of(static_cast<BufferKind>(k)), memory.by_kind[k]);
  p.memory.emplace_back("loader", memory.loader);
  p.memory.emplace_back("process", static_cast<int64_t>(m[Coef::process].value));
  p.memory_total = memory.total() + static_cast<int64_t>(m[Coef::process].value);
  p.checkpoint =
      checkpoint_cost(spec, static_cast<double>(stages[0].plan.parameter_count()), m, p.where.ranks_on_host);
  p.warnings = warnings_of(spec, terms, m, s, p.memory_total);
  return p;
}

}  // namespace isobar
