// How far rounding alone takes the gradients of a net from the true ones: bounds that come from the net, not
// from what the kernels of one CPU gave.
//
//   const Rounding rounding = rounding_of(spec, mpi, [](InProcess& run) { run.start_from(…); … });
//   error <= rounding.bound("blocks.0.attn.q.weight")
//
// Each op rounds its result, which are sums in its kernel's own order. How far one such rounding takes a
// gradient is measured: by weights that have each moved to a float beside it. Errors of independent ops add
// up as the square root of their number (Higham and Mary, 2019), and so the bound is a multiple of that root
// and of what was measured.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/in_process.h"

namespace isobar {

struct Rounding {
  std::map<std::string, double> moved = {};  // how far a gradient moved, as a norm
  double ops = 0;
  double bound(const std::string& parameter) const {
    constexpr double kSpread = 2;  // standard deviations
    return kSpread * std::sqrt(ops) * moved.at(parameter);
  }
};

/// Measured by one step of plain descent on one rank; `begin` sets weights and samples. Every rank computes
/// it alone.
inline Rounding rounding_of(RunSpec spec, const Mpi& mpi, const std::function<void(InProcess&)>& begin) {
  spec.layout = {};
  std::map<std::string, std::vector<double>> gradients[2];
  Rounding out;
  for (const bool moved : {false, true}) {
    InProcess run(spec, mpi, "rounding");
    begin(run);
    if (moved) run.round_weights();
    const std::vector<float> before = run.params();
    run.step(0);
    const std::vector<float> after = run.params();
    for (const Param& p : run.plan.params)
      for (const ElementRun& r : kept_runs(run.plan, p, &Shard::params)) {
        std::vector<double>& g = gradients[moved][p.name];
        for (int64_t i = r.offset; i < r.offset + r.count; ++i)
          g.push_back((static_cast<double>(before.at(i)) - after.at(i)) / spec.train.lr);
      }
    out.ops = static_cast<double>(run.ops());
  }
  for (const auto& [name, g] : gradients[0]) {
    double squares = 0;
    for (size_t i = 0; i < g.size(); ++i) squares += std::pow(gradients[1].at(name).at(i) - g[i], 2);
    out.moved[name] = std::sqrt(squares);
  }
  // Few elements may by chance hardly move, so that every gradient counts as moved at least by the tenth part
  // of what the median one is, relative to its size.
  std::vector<double> relative;
  std::map<std::string, double> size;
  for (const auto& [name, g] : gradients[0]) {
    size[name] = std::sqrt(std::inner_product(g.begin(), g.end(), g.begin(), 0.0));
    if (size[name] > 0) relative.push_back(out.moved[name] / size[name]);
  }
  std::sort(relative.begin(), relative.end());
  for (auto& [name, moved] : out.moved)
    if (!relative.empty()) moved = std::max(moved, 0.1 * relative[relative.size() / 2] * size[name]);
  return out;
}

}  // namespace isobar
