#include "perfmodel/machine/bounds.h"

#include <cstdio>

#include "perfmodel/machine/coefficient.h"

namespace isobar::perf {
namespace {

// Ranges span a core of the 1990s to an exascale node, a serial line to a wafer's memory; coefficients a
// hundredth of the best to a million times the usual price.
const std::vector<Bounds>& plain_keys() {
  static const std::vector<Bounds> keys{
      {"identity.cores", "cores", 1, 1e5},
      {"identity.memory_bytes", "B", 1e6, 1e15},
      {"identity.cache_bytes", "B", 1, 1e12},  // 1 stands for none in files of accelerators
      {"accelerator.memory_bytes", "B", 1e8, 1e14},
      {"accelerator.reported_bytes", "B", 1e8, 1e14},
      {"accelerator.processors", "processors", 1, 1e6},
      {"accelerator.power_w", "W", 1, 1e5},
      {"accelerator.host_bandwidth", "B/s", 1e8, 1e14},
      {"accelerator.price_per_hour", "a rank and hour", 1e-4, 1e5},
      {"accelerator.mtbf_hours", "h", 1, 1e8},
      {"accelerator.tiers.host.ranks", "ranks", 1, 1e6},
      {"accelerator.tiers.host.bandwidth", "B/s", 1e7, 1e14},
      {"accelerator.tiers.net.bandwidth", "B/s", 1e6, 1e14},
      {"accelerator.tiers.host.links", "links", 1e-3, 1e3},
      {"accelerator.tiers.net.links", "links", 1e-3, 1e3},
      {"accelerator.tiers.host.latency", "s", 1e-9, 1},
      {"accelerator.tiers.net.latency", "s", 1e-9, 1},
      {"storage.host_bandwidth", "B/s", 1e5, 1e13},
      {"storage.filesystem_bandwidth", "B/s", 1e5, 1e15},
      {"peaks.f32.value", "FLOP/s", 1e7, 1e18},
      {"peaks.tf32.value", "FLOP/s", 1e7, 1e18},
      {"peaks.bf16.value", "FLOP/s", 1e7, 1e18},
      {"peaks.fp8.value", "FLOP/s", 1e7, 1e18},
      {"peaks.fp4.value", "FLOP/s", 1e7, 1e18},
      {"peaks.memory.value", "B/s", 1e7, 1e15},
  };
  return keys;
}
// Coefficients by their unit.
const std::vector<Bounds>& prices_by_unit() {
  static const std::vector<Bounds> prices{{"", "s/FLOP", 1e-19, 1e-5},
                                          {"", "s/B", 1e-19, 1e-3},
                                          {"", "s", 1e-12, 1e4},
                                          {"", "1", 1e-12, 1e6},
                                          {"", "B", 1, 1e14}};
  return prices;
}

std::string shown(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", v);
  return text;
}

const Bounds* bounds_of(const std::string& key) {
  for (const Bounds& b : plain_keys())
    if (key == b.key) return &b;
  const std::string prices = "coefficients.";
  if (!key.starts_with(prices) || !key.ends_with(".value")) return nullptr;
  const auto c = coef_named(key.substr(prices.size(), key.size() - prices.size() - 6));
  if (!c) return nullptr;
  for (const Bounds& b : prices_by_unit())
    if (info_of(*c).unit == b.unit) return &b;
  return nullptr;
}

}  // namespace

std::vector<Bounds> machine_keys() {
  std::vector<Bounds> out = plain_keys();
  for (size_t i = 0; i < kCoefs; ++i) {
    const std::string key = std::string("coefficients.") + info_of(i).name + ".value";
    if (const Bounds* b = bounds_of(key)) out.push_back({key, b->unit, b->least, b->most});
  }
  return out;
}

std::optional<Implausible> implausible(const std::string& key, double value) {
  const Bounds* b = bounds_of(key);
  if (!b || (b->least <= value && value <= b->most)) return std::nullopt;
  Implausible out{"is " + shown(value) + " " + b->unit + ", which no machine has: plausible is " +
                      shown(b->least) + " to " + shown(b->most) + " " + b->unit,
                  "give it in " + b->unit};
  // Tries powers of a thousand in order of likelihood: a wrong unit is the usual mistake.
  for (const int power : {9, 12, 6, 3, -9, -6, -3}) {
    char text[48];
    std::snprintf(text, sizeof text, "%ge%d", value, power);
    double meant = 0;
    if (std::sscanf(text, "%lf", &meant) != 1 || meant < b->least || meant > b->most) continue;
    out.mend = std::string("did you mean ") + text + "? " + out.mend;
    break;
  }
  return out;
}

}  // namespace isobar::perf
