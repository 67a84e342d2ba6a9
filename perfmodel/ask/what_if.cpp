// Hypothetical machines, and the changes after which another layout wins.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "model/base/error.h"
#include "model/base/names/did_you_mean.h"
#include "model/base/text/yaml.h"
#include "perfmodel/ask/search.h"

namespace isobar::perf {
namespace {

void scale(Machine& m, std::initializer_list<Coef> coefs, double factor) {
  for (Coef c : coefs) {
    Coefficient& k = m[c];
    k.value *= factor;
    k.lower *= factor;
    k.upper *= factor;
  }
}

void apply(Machine& m, const std::string& quantity, double f) {
  if (quantity == "flops") {
    for (const char* peak : {"f32", "tf32", "bf16", "fp8"}) m.peaks.at(peak).value *= f;
    scale(m,
          {Coef::gemm_f32, Coef::gemm_tf32, Coef::gemm_bf16, Coef::gemm_fp8, Coef::attention_f32,
           Coef::attention_tf32, Coef::attention_bf16, Coef::attention_backward_f32,
           Coef::attention_backward_tf32, Coef::attention_backward_bf16, Coef::softmax_f32,
           Coef::softmax_bf16, Coef::softmax_backward_f32, Coef::softmax_backward_bf16},
          1 / f);
  } else if (quantity == "memory_bw") {
    m.peaks.at("memory").value *= f;
    scale(m,
          {Coef::gemm_bytes, Coef::attention_bytes, Coef::norm, Coef::gelu, Coef::reduction, Coef::copy,
           Coef::loss, Coef::optimizer, Coef::spill},
          1 / f);
  } else if (quantity == "nvlink_bw") {
    if (m.accelerator) m.accelerator->host.bandwidth *= f;
    scale(m, {Coef::wire_host}, 1 / f);
  } else if (quantity == "net_bw") {
    if (m.accelerator) m.accelerator->net.bandwidth *= f;
    scale(m, {Coef::wire_net}, 1 / f);
  } else if (quantity == "latency") {
    if (m.accelerator) m.accelerator->host.latency *= f, m.accelerator->net.latency *= f;
    scale(m, {Coef::message_host, Coef::message_net, Coef::collective_call}, f);
  } else if (quantity == "memory_size") {
    if (m.accelerator)
      for (int64_t* bytes : {&m.accelerator->memory_bytes, &m.accelerator->reported_bytes})
        *bytes = std::llround(static_cast<double>(*bytes) * f);
    m.identity.memory_bytes = std::llround(static_cast<double>(m.identity.memory_bytes) * f);
  } else if (quantity == "price") {
    m.accelerator->price_per_hour *= f;
  } else if (quantity == "nvlink_ranks") {
    if (m.accelerator)
      m.accelerator->host.ranks =
          std::max<int64_t>(1, std::llround(static_cast<double>(m.accelerator->host.ranks) * f));
  }
}

}  // namespace

const std::vector<std::string>& what_if_quantities() {
  static const std::vector<std::string> names{"flops",   "memory_bw",   "nvlink_bw",    "net_bw",
                                              "latency", "memory_size", "nvlink_ranks", "price"};
  return names;
}

namespace {

struct WhatIfChange {
  std::string quantity;
  double factor = 1;
};

[[noreturn]] void refuse_change(const std::string& change, const std::string& what, const std::string& mend) {
  throw ConfigError("--what-if", change, what, mend);
}

// "nvlink_bw*2": a quantity, an operator and a number.
WhatIfChange change_in(const std::string& text) {
  const size_t sign = text.find_first_of("*/");
  WhatIfChange c{text.substr(0, sign), 1};
  std::vector<std::string> known = what_if_quantities();
  known.emplace_back("tokens");
  known.emplace_back("samples");
  if (std::find(known.begin(), known.end(), c.quantity) == known.end())
    refuse_change(text, "'" + c.quantity + "' is no quantity of a machine or a training",
                  "did you mean " + nearest(c.quantity, known) + "?");
  if (sign == std::string::npos) refuse_change(text, "has no factor", "write e.g. nvlink_bw*2");
  const char *begin = text.data() + sign + 1, *end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(begin, end, c.factor);
  if (failed != std::errc() || !(c.factor > 0) || !std::isfinite(c.factor))
    refuse_change(text, "'" + std::string(begin, end) + "' is no factor",
                  "give a number above 0, e.g. nvlink_bw*2");
  if (rest != end)
    refuse_change(text, "'" + std::string(rest, end) + "' stands behind the factor",
                  "write one change, e.g. nvlink_bw*2; --what-if may be repeated");
  if (text[sign] == '/') c.factor = 1 / c.factor;
  return c;
}

}  // namespace

Machine what_if(Machine machine, const std::string& change) {
  const WhatIfChange c = change_in(change);
  if ((c.quantity == "nvlink_ranks" || c.quantity == "price") && !machine.accelerator)
    refuse_change(change, "is of accelerators, and " + machine.file + " has none", "leave it out");
  if (c.quantity == "price" && machine.accelerator->price_per_hour == 0)
    refuse_change(change, "changes a price that " + machine.file + " does not say",
                  "give accelerator.price_per_hour there");
  apply(machine, c.quantity, c.factor);  // checks the change; one of training leaves the machine unchanged
  machine.name += " with " + change;
  return machine;
}

double training_what_if(const std::string& change) {
  const WhatIfChange c = change_in(change);
  return c.quantity == "tokens" || c.quantity == "samples" ? c.factor : 1;
}

std::vector<Turn> turns(LayoutModel& model, const std::vector<LayoutCandidate>& candidates) {
  std::vector<Turn> out;
  const Machine machine = model.machine();
  for (const char* quantity : {"flops", "memory_bw", "nvlink_bw", "net_bw", "latency"})
    for (const double direction : {1.0, -1.0}) {
      // The first step of 2^(1/4) at which another leads, up to a factor of 16 either way
      for (int step = 1; step <= 16; ++step) {
        const double factor = std::exp2(direction * step / 4);
        Machine m = machine;
        apply(m, quantity, factor);
        model.set_coefficients(m.values());
        const LayoutCandidate* leads = nullptr;
        double least = 0;
        for (const LayoutCandidate& c : candidates) {
          const double s = model.time(c.layout).seconds / c.fits;
          if (!leads || s < least) leads = &c, least = s;
        }
        if (leads == &candidates.front()) continue;
        out.push_back({quantity, factor, leads->layout, least});
        break;
      }
    }
  model.set_coefficients(machine.values());
  std::sort(out.begin(), out.end(), [](const Turn& a, const Turn& b) {
    return std::abs(std::log(a.factor)) < std::abs(std::log(b.factor));
  });
  return out;
}

}  // namespace isobar::perf
