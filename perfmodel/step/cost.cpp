#include "perfmodel/step/cost.h"

#include <algorithm>
#include <cmath>

namespace isobar::perf {

Counts rates(const Counts& k, const Conditions& w) {
  const auto t = static_cast<double>(w.threads), cores = static_cast<double>(w.cores);
  const double wanted = t * static_cast<double>(w.ranks_on_host);
  const double turns = std::max(1.0, wanted / cores);
  const double team = (1 + k[index_of(Coef::threads_serial)] * (t - 1)) / t;
  const double others = cores > 1 ? (std::min(wanted, cores) - 1) / (cores - 1) : 0;
  const double compute = turns * team * (1 + k[index_of(Coef::share_compute)] * others);
  const double memory = turns * team * (1 + k[index_of(Coef::share_memory)] * others);
  // All ranks of a host exchange through its memory at once.
  const double pairs = cores > 1
                           ? 1 + k[index_of(Coef::share_memory)] *
                                     std::max(0.0, std::min<double>(w.ranks_on_host, cores) - 2) / (cores - 1)
                           : 1;
  const double forks = turns * std::log2(t);
  const auto factor_of = [&](Resource r) {
    switch (r) {
      case Resource::compute:
        return compute;
      case Resource::memory:
        return memory;
      case Resource::serial:
      case Resource::host:
        return turns;
      case Resource::fork:
        return forks;
      case Resource::sharing:
      case Resource::bytes:
        return 0.0;
      default:
        return 1.0;
    }
  };
  Counts out;
  for (size_t i = 0; i < kCoefs; ++i) out[i] = k[i] * factor_of(info_of(i).resource);
  for (const Coef c : {Coef::message_host, Coef::wire_host}) out[index_of(c)] *= pairs;
  return out;
}

double seconds(const Counts& counts, const Counts& rates) {
  double s = 0;
  for (size_t i = 0; i < kCoefs; ++i) s += counts[i] * rates[i];
  return s;
}

}  // namespace isobar::perf
