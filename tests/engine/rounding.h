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
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/in_process.h"

namespace isobar::engine {

struct Rounding {
  std::map<std::string, double> moved =
      {};  // how far a gradient moved, as a norm: root mean square over draws
  double ops = 0;
  double bound(const std::string& parameter) const {
    constexpr double kSpread = 2;  // standard deviations
    return kSpread * std::sqrt(ops) * moved.at(parameter);
  }
};

/// Measured by one step of plain descent on one rank; `begin` sets weights and samples. Every rank computes
/// it alone.
inline Rounding rounding_of(RunSpec spec, const comm::Mpi& mpi,
                            const std::function<void(InProcess&)>& begin) {
  constexpr int kDraws = 4;  // a gradient of one element hardly moves in one draw by chance
  spec.layout = {};
  Rounding out;
  const auto gradients_of = [&](bool rounded) {
    std::map<std::string, std::vector<double>> gradients;
    InProcess run(spec, mpi, "rounding");
    begin(run);
    if (rounded) run.round_weights();
    const std::vector<float> before = run.params();
    run.step(0);
    const std::vector<float> after = run.params();
    for (const plan::Param& p : run.plan.params)
      for (const inference::ElementRun& r : inference::kept_runs(run.plan, p, &plan::Shard::params)) {
        std::vector<double>& g = gradients[p.name];
        for (int64_t i = r.offset; i < r.offset + r.count; ++i)
          g.push_back((static_cast<double>(before.at(i)) - after.at(i)) / spec.train.lr);
      }
    out.ops = static_cast<double>(run.ops());
    return gradients;
  };
  const auto exact = gradients_of(false);
  std::map<std::string, double> squares;
  for (int draw = 0; draw < kDraws; ++draw)
    for (const auto& [name, g] : gradients_of(true))
      for (size_t i = 0; i < g.size(); ++i) squares[name] += std::pow(g[i] - exact.at(name).at(i), 2);
  for (const auto& [name, sum] : squares) out.moved[name] = std::sqrt(sum / kDraws);
  return out;
}

}  // namespace isobar::engine
