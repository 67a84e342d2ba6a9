// A small machine and a small sweep that several tests use.
#pragma once
#include <cmath>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "model/nets/build.h"
#include "model/nets/layout/busiest_rank.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/fitting/fit.h"
#include "perfmodel/fitting/layout_fit.h"
#include "perfmodel/step/cost.h"
#include "perfmodel/step/op_terms.h"
#include "perfmodel/step/reading.h"
#include "perfmodel/step/simulate.h"
#include "perfmodel/step/utilization.h"
#include "tests/paths.h"

namespace isobar::test {

inline constexpr const char* kSpecSheet = R"(
name: two-core
identity: {host: bench, cpu: "Some CPU", isa: avx2, cores: 2, memory_bytes: 16000000000, cache_bytes: 32000000}
peaks:
  f32: {value: 1.0e11, unit: FLOP/s per core, provenance: [spec]}
  bf16: {value: 2.0e11, unit: FLOP/s per core, provenance: [spec]}
  memory: {value: 3.0e10, unit: B/s, provenance: [spec]}
)";
inline perf::Machine machine() {
  return perf::parse_machine(kSpecSheet, "spec.yaml");
}

// One of the shipped machines
inline perf::Machine cluster(const std::string& name = "dgx-a100") {
  return perf::load_machine(source_dir() + "/configs/machines/" + name + ".yaml");
}

template <class T>
T one_of(std::mt19937_64& random, std::initializer_list<T> list) {
  return *(list.begin() + static_cast<int64_t>(random() % list.size()));
}

inline RunSpec tiny() {
  RunSpec s;
  s.net.vit().embed_dim = 128;
  s.net.vit().depth = 4;
  s.net.vit().num_heads = 4;
  s.net.vit().patch_size = 8;
  s.net.vit().img_height = 64;
  s.net.vit().img_width = 128;
  s.net.vit().in_channels = s.net.vit().out_channels = 8;
  s.data.train = "data/demo/train";
  s.train.global_batch = 8;
  s.run.threads = 1;
  validate(s);
  return s;
}

/// The demo sweep's shape: ranks x amp x workers x micro-batch, 36 runs.
inline std::vector<RunSpec> sweep() {
  std::vector<RunSpec> out;
  for (int ranks : {1, 2})
    for (const Amp amp : {Amp::none, Amp::bf16})
      for (int workers : {0, 1, 2})
        for (int micro : {1, 2, 4}) {
          RunSpec s = tiny();
          s.layout.dp = ranks;
          s.policy.amp = amp;
          s.data.workers = workers;
          s.policy.micro_batch = micro;
          out.push_back(s);
        }
  return out;
}

/// A hidden truth: the machine with every coefficient off by a random factor.
inline perf::Machine perturbed(perf::Machine m, double log_sigma, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  for (size_t i = 0; i < perf::kCoefs; ++i) {
    const double v =
        std::max(m.coefficients[i].value * std::exp(log_sigma * normal(random)), 1.02 * m.floor_of(i));
    m.coefficients[i].value = v;
  }
  return m;
}

inline perf::Conditions conditions(const RunSpec& s, const perf::Machine& m) {
  return {
      .ranks = s.layout.world(),
      .stages = s.layout.pp,
      .meeting = s.layout.tp * s.layout.cp,
      .ranks_on_host = s.layout.world(),
      .threads = s.run.threads ? s.run.threads : std::max<int64_t>(1, m.identity.cores / s.layout.world()),
      .cores = m.identity.cores};
}

inline perf::HostShare host_of(const RunSpec& s, const perf::Machine& m) {
  const perf::Conditions w = conditions(s, m);
  return {.ranks_on_host = w.ranks_on_host, .threads = w.threads};
}

/// By the closed form
inline perf::LayoutCost cost(const RunSpec& s, const perf::Machine& m, const perf::HostShare& host) {
  perf::LayoutModel model(s, m, host);
  return model.time(perf::layout_of(s));
}
inline double closed(const RunSpec& s, const perf::Machine& m, const perf::HostShare& host) {
  return cost(s, m, host).seconds;
}
inline double closed(const RunSpec& s, const perf::Machine& m) {
  return closed(s, m, host_of(s, m));
}

inline perf::Replay replay(const RunSpec& s, const perf::Machine& m, const perf::HostShare& host) {
  const perf::Conditions where = perf::conditions_of(s, m, host);
  return perf::simulate(s, nets::stages_of(s, {}, nets::busiest_rank(s)), m.values(), where,
                        perf::cache_of_rank(m, where.ranks_on_host));
}
inline perf::Replay replay(const RunSpec& s, const perf::Machine& m) {
  return replay(s, m, host_of(s, m));
}
/// Counts of the busiest rank's step
inline perf::Counts counted(const RunSpec& s, const perf::Machine& m, const perf::HostShare& host) {
  return replay(s, m, host).busiest.counts;
}
/// Least seconds by the machine's peaks
inline double ceiling(const RunSpec& s, const perf::Machine& m, const perf::HostShare& host) {
  return perf::ceiling_of(nets::stages_of(s, {}), m, perf::conditions_of(s, m, host));
}

}  // namespace isobar::test
