// Training under a layout compared with one rank: losses and gradient norms of every step on every rank, and
// the final weights of all ranks together.
//
//   const Trained& one = one_rank(kTiny, net, mpi);
//   const Deviation d = compare(trained(spec, mpi, "dp2 tp2"), one, mpi);    // d.losses < 1e-5
#pragma once
#include <omp.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tests/engine/in_process.h"
#include "tests/engine/worlds/product.h"

namespace isobar::engine {

struct Trained {
  std::vector<double> losses, norms;  // by step
  plan::Plan plan;
  std::vector<float> params;  // the plan's parameter buffer
};

inline Trained trained(const RunSpec& spec, const comm::Mpi& mpi, const std::string& title) {
  omp_set_num_threads(1);
  InProcess run(spec, mpi, title);
  Trained out;
  for (int64_t step = 0; step < spec.train.steps; ++step) {
    const Step s = run.step(step);
    out.losses.push_back(s.loss);
    out.norms.push_back(s.norm);
  }
  out.plan = run.plan;
  out.params = run.params();
  return out;
}

struct Deviation {
  double losses = 0, norms = 0;  // largest relative deviation over steps and ranks
  double weights = 0;            // |a - b| / |b| over all weights of all ranks
  bool whole = true;             // every weight was compared
};

inline Deviation compare(const Trained& many, const Trained& one, const comm::Mpi& mpi) {
  const auto largest = [&](const std::vector<double>& a, const std::vector<double>& b) {
    double most = 0;
    for (size_t i = 0; i < b.size(); ++i) {
      const double off = std::abs(a[i] / b[i] - 1);
      most = std::max(most, std::isfinite(off) ? off : INFINITY);
    }
    return mpi.max_of(most);
  };
  Deviation d;
  d.losses = largest(many.losses, one.losses);
  d.norms = largest(many.norms, one.norms);
  std::map<std::string, const plan::Param*> wholes;
  for (const plan::Param& p : one.plan.params) wholes[p.name] = &p;
  double difference = 0, magnitude = 0, written = 0;
  for (const plan::Param& p : many.plan.params) {
    const float* whole = one.params.data() + wholes.at(p.name)->offset;
    for (const inference::ElementRun& r : inference::kept_runs(many.plan, p, &plan::Shard::params)) {
      for (int64_t i = 0; i < r.count; ++i) {
        const double x = many.params[r.offset + i], y = whole[r.whole + i];
        difference += (x - y) * (x - y);
        magnitude += y * y;
      }
      if (p.writer) written += static_cast<double>(r.count);
    }
  }
  const std::vector<double> sums = mpi.sum_of({difference, magnitude, written});
  d.weights = std::sqrt(sums[0] / sums[1]);
  d.whole = sums[2] == static_cast<double>(one.plan.parameter_count());
  return d;
}

/// Numbers of rank 0 on every rank.
template <class T>
std::vector<T> from_first(const comm::Mpi& mpi, const std::vector<T>& of_first) {
  const std::string bytes =
      mpi.from_first({reinterpret_cast<const char*>(of_first.data()), of_first.size() * sizeof(T)});
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

/// This net's training on one rank. Rank 0 does it, once, while the others wait.
inline const Trained& one_rank(const std::string& config, const std::vector<std::string>& net,
                               const comm::Mpi& mpi) {
  static std::map<std::string, Trained> known;
  const std::string name = config + " " + text_of(net);
  const auto at = known.find(name);
  if (at != known.end()) return at->second;
  const RunSpec spec = load_run_spec(config, net);
  Trained one;
  if (mpi.rank() == 0)
    one = trained(spec, mpi, name);
  else
    one.plan = nets::build_plan(spec, 0, cpu_workspace(1));
  one.losses = from_first(mpi, one.losses);
  one.norms = from_first(mpi, one.norms);
  one.params = from_first(mpi, one.params);
  return known.emplace(name, std::move(one)).first->second;
}

}  // namespace isobar::engine
