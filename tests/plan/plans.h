// Plans for the tests of model/plan and model/nets.
#pragma once
#include <random>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/nets/build.h"
#include "model/plan/builder.h"
#include "model/plan/link.h"
#include "tests/paths.h"

namespace isobar::plan {

inline int64_t no_workspace(const Op&) {
  return 0;
}

/// Odd scratch sizes for attention, to exercise placement.
inline int64_t odd_workspace(const Op& op) {
  return op.kind == OpKind::attention ? 1000 : 4444;
}

inline RunSpec spec_of(const std::string& model, const std::vector<std::string>& overrides = {}) {
  return load_run_spec((source_dir() + "/configs/models/") + model + ".yaml", overrides);
}

inline Plan plan_of(const std::string& model, const std::vector<std::string>& overrides = {}, int rank = 0) {
  return nets::build_plan(spec_of(model, overrides), rank, odd_workspace);
}

/// Ops on random lanes that read and write random pieces of scratch and io buffers.
inline Plan random_plan(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  Builder b(0, 1, no_workspace);
  b.persistent("w", BufferKind::params, DType::f32, 64);
  std::vector<View> io;
  for (int i = 0; i < 3; ++i) io.push_back(b.io("io" + std::to_string(i), DType::f32, 16 + below(100)));
  for (int r = 0; r < 2; ++r) {
    const int routine = b.begin("routine" + std::to_string(r), Pass::forward);
    std::vector<View> views = io;
    for (int i = 0; i < 12; ++i)
      views.push_back(
          b.scratch("scratch" + std::to_string(i), below(2) ? DType::f32 : DType::bf16, 1 + below(300)));
    const auto piece = [&](size_t near) {  // mostly of near neighbours, so that lives are short
      const View& v = below(6) == 0 ? views[below(3)] : views[3 + (near + below(4)) % 12];
      const int64_t from = below(static_cast<int>(v.count)), n = 1 + below(static_cast<int>(v.count - from));
      return v.slice(from, n);
    };
    const int ops = 20 + below(40);
    for (int i = 0; i < ops; ++i) {
      const size_t near = static_cast<size_t>(i) * 12 / ops;
      std::vector<View> reads, writes;
      for (int k = below(3); k > 0; --k) reads.push_back(piece(near));
      if (below(8) == 0) reads.push_back(View{});
      for (int k = below(3); k > 0; --k) writes.push_back(piece(near));
      b.emit<OpKind::cast>("op" + std::to_string(i), {.count = 1}, reads, writes,
                           static_cast<Lane>(below(kLanes)));
    }
    b.end();
    for (int n = 1 + below(2); n > 0; --n) b.plan.train.push_back({routine, n, 0});
  }
  place(b.plan);
  return std::move(b.plan);
}

}  // namespace isobar::plan
