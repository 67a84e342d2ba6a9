#include "perfmodel/step/engine_prices.h"

#include <algorithm>

#include "model/base/error.h"
#include "perfmodel/step/op_terms.h"
#include "perfmodel/step/shapes.h"

namespace isobar::perf {
namespace {

constexpr Coef kPassing[] = {Coef::norm, Coef::gelu, Coef::reduction, Coef::copy, Coef::loss};
constexpr Coef kLaunched[] = {Coef::op, Coef::fork, Coef::host_op};

bool of_library(Coef c) {
  const std::string family = info_of(c).family;
  return family == "gemm" || family == "attention" || c == Coef::gemm_bytes || c == Coef::gemm_call;
}

/// The price of a factor of 1: bytes at the memory's peak; arithmetic at an accelerator's peak, on cores at
/// Isobar's price; others a second.
double unit_price(const Machine& m, Coef c) {
  const CoefficientInfo& info = info_of(c);
  if (info.resource == Resource::memory) return 1 / m.peaks.at("memory").value;
  if (!info.peak) return 1;
  return m.accelerator ? m.floor_of(index_of(c)) : m[c].value;
}

// Measured time over that of one price for all sizes, as calibration writes it.
void set_heads(const EngineKernels& k, const std::vector<std::string>& from, Machine& m) {
  if (k.heads.empty()) return;
  ShapeFactors shapes = m.shapes ? *m.shapes : ShapeFactors{};
  for (const size_t pass : {0, 1}) {
    const Coef c = pass == 0 ? Coef::attention_bf16 : Coef::attention_backward_bf16;
    const double share = k.heads.begin()->second[pass];
    m[c] = Coefficient::make(1 / (share * m.peaks.at("bf16").value), k.spread, from);
    for (const auto& [size, shares] : k.heads)
      shapes[head_name(pass == 0 ? "attention" : "attention_backward", "bf16", size, false)] =
          share / shares[pass] / softmax_of_head(static_cast<double>(size));
  }
  m.shapes = std::make_shared<const ShapeFactors>(std::move(shapes));
}

// PyTorch's memory-efficient attention makes a product in fp32 of three in TF32, whether TF32 is allowed or
// not.
void set_single_precision_attention(const EngineKernels& k, const std::vector<std::string>& from,
                                    Machine& m) {
  const double in_three = m.peaks.at("tf32").value / 3;
  if (k.heads.empty() || in_three <= m.peaks.at("f32").value) return;
  for (const auto& [c, pass] : {std::pair{Coef::attention_f32, 0},
                                {Coef::attention_tf32, 0},
                                {Coef::attention_backward_f32, 1},
                                {Coef::attention_backward_tf32, 1}})
    m[c] = Coefficient::make(1 / (k.heads.begin()->second[static_cast<size_t>(pass)] * in_three), k.spread,
                             from);
}

std::string written(const ForeignEngine& e, bool recorded) {
  return e.name + (recorded ? "" : " of planned nets");
}

}  // namespace

Machine run_by(const ForeignEngine& e, const Machine& given, bool recorded) {
  const std::string name = written(e, recorded);
  if (given.engine == name) return given;
  if (!given.engine.empty())
    throw ConfigError(given.file, "engine", "is '" + given.engine + "', and this is a run of " + name,
                      "name a machine that was not fitted to runs of it");
  Machine m = given;
  m.engine = name;
  const std::vector<std::string> from{"configs/engines/" + e.name + ".yaml"};
  const bool nvidia = m.accelerator && m.accelerator->vendor == "nvidia", calibrated = !m.timed.empty();
  const auto& factors = m.accelerator ? e.kernels->accelerators : e.kernels->cores;
  for (const auto& [key, factor] : factors) {
    const auto c = coef_named(key);
    if (!c || (m.accelerator && of_library(*c) && (!nvidia || calibrated))) continue;
    const double least = m.floor_of(index_of(*c));
    m[*c] = Coefficient::make(std::max(least, factor * unit_price(given, *c)), e.kernels->spread, from);
  }
  if (nvidia && !calibrated) {
    set_heads(*e.kernels, from, m);
    set_single_precision_attention(*e.kernels, from, m);
  }
  if (recorded) return m;
  const auto times = [&](const char* key, auto& list) {
    const auto found = factors.find(key);
    for (const Coef c : list)
      if (found != factors.end())
        m[c] = Coefficient::make(found->second * m[c].value, e.kernels->spread, from);
  };
  times("passes", kPassing);
  times("launches", kLaunched);
  return m;
}

std::string engine_running(const RunSpec& spec, const Machine& m) {
  if (spec.net.recorded()) return spec.net.traced().compiled ? "pytorch-compiled" : "pytorch";
  return m.engine.substr(0, m.engine.find(' '));
}

Machine machine_of(const RunSpec& spec, const Machine& m) {
  const std::string engine = engine_running(spec, m);
  return engine.empty() ? m : run_by(engine_named(engine), m, spec.net.recorded());
}

void refuse_axes(const RunSpec& s, const ForeignEngine& e) {
  const auto lacks = [&](const char* key, int64_t value, bool has) {
    if (value > 1 && !has)
      throw ConfigError(s.file, key, e.name + " has no such axis (" + e.file + ")", "use 1");
  };
  lacks("layout.dp", s.layout.dp, e.axes.dp);
  lacks("layout.tp", s.layout.tp, e.axes.tp);
  lacks("layout.cp", s.layout.cp, e.axes.cp);
  lacks("layout.pp", s.layout.pp, e.axes.pp);
  lacks("layout.vpp", s.layout.vpp, e.axes.vpp);
  lacks("layout.ep", s.layout.ep, e.axes.ep);
  if (s.policy.offloaded_layers > 0 && !e.axes.offload)
    throw ConfigError(s.file, "policy.offloaded_layers",
                      e.name + " keeps no activations in host memory (" + e.file + ")", "set it to 0");
  if (s.policy.offloaded_layers > 0 && (s.layout.pp > 1 || s.policy.recompute != Recompute::none))
    throw ConfigError(s.file, "policy.offloaded_layers",
                      "goes with neither layout.pp nor policy.recompute on " + e.name,
                      "set it to 0, or layout.pp to 1 and policy.recompute to none");
  if (std::find(e.axes.zero.begin(), e.axes.zero.end(), s.policy.zero) == e.axes.zero.end())
    throw ConfigError(s.file, "policy.zero",
                      e.name + " has no ZeRO stage " + std::to_string(s.policy.zero) + " (" + e.file + ")",
                      "use " + std::to_string(e.axes.zero.front()));
}

}  // namespace isobar::perf
