// What cuDNN says of every attention of the shipped configurations and of the tests, on A100, H100 and B200:
// is it supported, by which kernel, and within the workspace that the plan declares. No GPU is needed: cuDNN
// plans for a described one (gpus/*.json), over a driver that does nothing (stub_libcuda.c); hence a process
// of its own. The plans are made by CudnnAttention, as in a run.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <sstream>

#include "model/backend/cuda/kernels/workspace.h"
#include "model/backend/cuda/libraries/attention_cudnn.h"
#include "model/nets/build.h"
#include "tests/cuda/attention_shapes.h"
#include "tests/cuda/shipped.h"

namespace isobar::cuda::testing {
namespace {

struct Gpu {
  const char* name;
  int sm;
  int capability() const { return sm / 10; }
  friend void PrintTo(const Gpu& g, std::ostream* out) { *out << g.name; }
};

struct Wanted {  // one attention, and who wants it first
  Attention a;
  bool backward;
  int64_t declared;
  std::string who;
};

// Each shape once, with what the plan declares for it.
std::vector<Wanted> wanted_on(const Gpu& gpu, bool deterministic) {
  std::map<std::string, Wanted> all;
  const auto add = [&](const Attention& a, bool backward, int64_t declared, const std::string& who) {
    const std::string key = text_of(a, backward) + " " + std::to_string(a.ld_q) + " " +
                            std::to_string(a.ld_kv) + " " + std::to_string(a.ld_o);
    all.try_emplace(key, Wanted{a, backward, declared, who});
  };
  for (const ShippedRun& run : shipped_runs()) {
    const int64_t world = run.spec.layout.world();
    std::vector<int> ranks{0};
    if (run.spec.layout.cp > 1)
      ranks.push_back(static_cast<int>(world - 1));  // fewer tokens, where they do not come even
    for (const int rank : ranks) {
      const Plan plan = build_plan(run.spec, rank, cuda_workspace(gpu.capability(), deterministic));
      for (const Op& op : plan.ops) {
        const bool backward = op.kind == OpKind::attention_backward;
        if (!backward && op.kind != OpKind::attention) continue;
        if (!op.writes.back()) continue;  // unfused: products and a softmax
        const DType act = plan.buffers[static_cast<size_t>(op.reads[0].buffer)].dtype;
        add(cuda::attention_of(op.a, act, deterministic), backward, op.writes.back().count * 4, run.name);
      }
    }
  }
  for (Attention a : tested_attentions())
    for (const bool backward : {false, true}) {
      a.deterministic = deterministic;
      add(a, backward, attention_workspace(a, backward, gpu.capability()), "tests");
    }
  std::vector<Wanted> list;
  for (auto& [key, w] : all) list.push_back(std::move(w));
  return list;
}

// A plan takes cuDNN seconds, on some GPUs tens of them: CI looks at some, ISOBAR_ALL_PLANS=1 in the
// environment at all.
bool all_plans() {
  return std::getenv("ISOBAR_ALL_PLANS") != nullptr;
}

// Of each head size and number of key heads the backward pass over most pairs of tokens, which wants most:
// where what was declared fell short, it did so there. And one forward pass.
std::vector<Wanted> some_of(const std::vector<Wanted>& all) {
  std::map<std::pair<int64_t, bool>, Wanted> largest;
  std::vector<Wanted> some;
  for (const Wanted& w : all) {
    if (!w.backward && some.empty() && size_of(w.a.act) == 2) some.push_back(w);
    if (!w.backward || size_of(w.a.act) != 2) continue;
    const auto [at, fresh] = largest.try_emplace({w.a.d, w.a.kv_heads < w.a.heads}, w);
    if (!fresh && w.a.batch * w.a.heads * w.a.tq * w.a.tk >
                      at->second.a.batch * at->second.a.heads * at->second.a.tq * at->second.a.tk)
      at->second = w;
  }
  for (auto& [key, w] : largest)
    if (key.first >= 64 || key.second) some.push_back(w);
  return some;
}

class CudnnPlans : public ::testing::TestWithParam<Gpu> {
 protected:
  void SetUp() override {
    if (!CudnnAttention::built()) GTEST_SKIP() << "built without cuDNN's frontend (bench/setup.sh brings it)";
    if (!dlopen(ISOBAR_STUB_LIBCUDA, RTLD_NOW | RTLD_GLOBAL)) FAIL() << dlerror();
    std::ifstream file(std::string(ISOBAR_SOURCE_DIR "/tests/cuda/gpus/") + GetParam().name + ".json");
    ASSERT_TRUE(file.good()) << GetParam().name;
    std::stringstream text;
    text << file.rdbuf();
    try {
      cudnn_ = std::make_unique<CudnnAttention>(DescribedGpu{text.str(), GetParam().sm});
    } catch (const std::runtime_error& e) {
      GTEST_SKIP() << e.what();
    }
  }
  // Supported, and within what is declared; or by our own kernels on tensor cores. Returns the path.
  AttentionPath expect_runs(const Wanted& w) {
    const AttentionPath path = attention_path(w.a, w.backward, GetParam().capability(), true);
    const std::string what = text_of(w.a, w.backward) + " (" + w.who + ") on " + GetParam().name;
    std::cout << what << ": " << name_of(path);
    if (path == AttentionPath::cudnn) {
      try {
        cudnn_->prepare(w.a, w.backward, w.declared);
        const CudnnPlan& plan = cudnn_->plan(w.a, w.backward);
        std::cout << " " << plan.engine << ", " << plan.workspace << " of " << w.declared << " bytes";
      } catch (const std::runtime_error& e) {
        ADD_FAILURE() << what << ": " << e.what();
      }
    }
    std::cout << "\n";
    if (size_of(w.a.act) == 2) {
      EXPECT_NE(path, AttentionPath::scalar) << what;
    }
    return path;
  }
  std::unique_ptr<CudnnAttention> cudnn_;
};

TEST_P(CudnnPlans, HoldForEveryShippedConfigurationAndTest) {
  const std::vector<Wanted> all = wanted_on(GetParam(), false);
  std::map<AttentionPath, int> paths;
  for (const Wanted& w : all) ++paths[attention_path(w.a, w.backward, GetParam().capability(), true)];
  EXPECT_GT(paths[AttentionPath::cudnn], 20);
  EXPECT_GT(paths[AttentionPath::tensor_cores], 5) << "tf32";
  for (const Wanted& w : all_plans() ? all : some_of(all)) expect_runs(w);
}

// With sums in a fixed order: the largest of the shipped nets, and the tests' shapes.
TEST_P(CudnnPlans, HoldForDeterministicAttention) {
  if (!all_plans()) GTEST_SKIP() << "minutes of cuDNN's planning: set ISOBAR_ALL_PLANS=1";
  const std::vector<Wanted> all = wanted_on(GetParam(), true);
  for (const Wanted& w : all)
    if (w.backward && (w.who == "tests" || w.who.find("vit-1536") == 0 || w.a.d == 128)) expect_runs(w);
}

// The formula of the workspace, on shapes that nobody ships.
TEST_P(CudnnPlans, HoldForShapesDrawnAtRandom) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 engine(seed);
  const auto draw = [&](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(engine);
  };
  for (int i = 0; i < (all_plans() ? 12 : 2); ++i) {
    Attention a = attention_of(draw(1, 4), draw(1, 16), draw(2, 3000), draw(2, 3000), 8 * draw(1, 16),
                               i % 2 == 0 ? DType::bf16 : DType::f16);
    a.deterministic = i % 3 == 0;
    expect_runs({a, true, attention_workspace(a, true, GetParam().capability()), "drawn"});
  }
}

INSTANTIATE_TEST_SUITE_P(Gpus, CudnnPlans,
                         ::testing::Values(Gpu{"a100", 80}, Gpu{"h100", 90}, Gpu{"b200", 100}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace isobar::cuda::testing
