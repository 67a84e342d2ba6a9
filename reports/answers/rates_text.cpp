#include "reports/answers/rates_text.h"

#include <algorithm>
#include <string>
#include <vector>

#include "model/base/text/printed.h"

namespace isobar::report {
namespace {

struct RateLine {
  std::string name, unit, source;          // unit: the amount's
  double amount, price, seconds, of_peak;  // of_peak: 0 where there is no peak
};

std::vector<RateLine> lines_of(const perf::Counts& counts, const perf::Machine& m) {
  std::vector<RateLine> lines;
  for (size_t i = 0; i < perf::kCoefs; ++i) {
    const perf::CoefficientInfo& info = perf::info_of(i);
    const perf::Coefficient& c = m.coefficients[i];
    const std::string unit = info.unit;
    const bool priced = info.resource != perf::Resource::sharing && info.resource != perf::Resource::write &&
                        info.resource != perf::Resource::bytes && unit[0] == 's';
    if (!priced || counts[i] * c.value <= 0) continue;
    std::string source;
    for (const std::string& p : c.provenance) source += (source.empty() ? "" : "; ") + p;
    if (source.empty() || source == "spec") source = "derived from the peaks (perfmodel/machine/machine.cpp)";
    const bool bytes = unit == "s/B";
    const auto peak = m.peaks.find(info.peak ? info.peak : bytes ? "memory" : "");
    lines.push_back({info.name, unit == "s" ? "calls" : unit.substr(2), source, counts[i], c.value,
                     counts[i] * c.value,
                     peak == m.peaks.end() || info.resource == perf::Resource::wire
                         ? 0
                         : 1 / (c.value * peak->second.value)});
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const RateLine& a, const RateLine& b) { return a.seconds > b.seconds; });
  return lines;
}

}  // namespace

std::string rates_text(const perf::Counts& counts, const perf::Machine& machine) {
  std::string text = printed("\n  %-24s %10s %10s %-5s %11s %8s  %s\n", "price", "ms", "amount", "",
                             "a unit, s", "of peak", "source");
  for (const RateLine& l : lines_of(counts, machine))
    text += printed("  %-24s %10.3f %10.4g %-5s %11.4g %7.0f%%  %s\n", l.name.c_str(), 1e3 * l.seconds,
                    l.amount, l.unit.c_str(), l.price, 100 * l.of_peak, l.source.c_str());
  return text;
}

nlohmann::json rates_json(const perf::Counts& counts, const perf::Machine& machine) {
  nlohmann::json all = nlohmann::json::array();
  for (const RateLine& l : lines_of(counts, machine))
    all.push_back({{"name", l.name},
                   {"seconds", l.seconds},
                   {"amount", l.amount},
                   {"unit", l.unit},
                   {"price", l.price},
                   {"of_peak", l.of_peak},
                   {"source", l.source}});
  return all;
}

}  // namespace isobar::report
