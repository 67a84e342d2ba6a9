// Asks cuDNN about every attention of the shipped configurations and tests on A100, H100 and B200: supported,
// by which kernel, within the declared workspace. cuDNN plans for described GPUs (gpus/*.json) over a driver
// stub (stub_libcuda.c), which needs a process of its own. Plans are made by CudnnAttention, as in a run.
// NVRTC makes a plan slow, so answers are kept in a table (cudnn_table.h) and a sample is asked again each
// time.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <random>

#include "model/backend/cuda/kernels/workspace.h"
#include "model/backend/cuda/libraries/attention_cudnn.h"
#include "model/backend/cuda/runtime/device.h"
#include "model/nets/build.h"
#include "tests/cuda/attention_shapes.h"
#include "tests/cuda/cudnn_table.h"
#include "tests/cuda/shipped.h"
#include "tests/paths.h"

namespace isobar::cuda::testing {
namespace {

struct Gpu {
  const char* name;
  int sm;
  int capability() const { return sm / 10; }
  friend void PrintTo(const Gpu& g, std::ostream* out) { *out << g.name; }
};

struct Wanted {  // one attention, and its first user
  Attention a;
  bool backward;
  int64_t declared;
  std::string who;
};

// Each shape once, with its declared workspace.
std::vector<Wanted> wanted_on(const Gpu& gpu, bool deterministic) {
  std::map<std::string, Wanted> all;
  const auto add = [&](const Attention& a, bool backward, int64_t declared, const std::string& who) {
    if (a.last_more != 0) return;    // cuDNN has no key multiplicity: own kernels (cudnn_takes)
    if (backward || !deterministic)  // forward does not depend on `deterministic`
      all.try_emplace(cells_of(a, backward), Wanted{a, backward, declared, who});
  };
  for (const ShippedRun& run : shipped_runs()) {
    const int64_t world = run.spec.layout.world();
    std::vector<int> ranks{0};
    if (run.spec.layout.cp > 1)
      ranks.push_back(static_cast<int>(world - 1));  // fewer tokens, if they are uneven
    for (const int rank : ranks) {
      const Plan plan = build_plan(run.spec, rank, cuda_workspace(gpu.capability(), deterministic));
      for (const Op& op : plan.ops) {
        const bool backward = op.kind == OpKind::attention_backward;
        if (!backward && op.kind != OpKind::attention) continue;
        if (!op.writes.back()) continue;  // unfused: products and a softmax
        const DType act = plan.buffers[static_cast<size_t>(op.reads[0].buffer)].dtype;
        add(cuda::attention_of(op.as<AttentionAttrs>(), act, deterministic), backward,
            op.writes.back().count * 4, run.name);
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

// Sums in any order, and in a fixed one.
std::vector<Wanted> all_wanted_on(const Gpu& gpu) {
  std::vector<Wanted> all = wanted_on(gpu, false);
  for (Wanted& w : wanted_on(gpu, true)) all.push_back(std::move(w));
  return all;
}

class CudnnPlans : public ::testing::TestWithParam<Gpu> {
 protected:
  AttentionPath path_of(const Wanted& w) const {
    return attention_path(w.a, w.backward, GetParam().capability(), true);
  }
  std::string text_of_wanted(const Wanted& w) const {
    return text_of(w.a, w.backward) + " (" + w.who + ") on " + GetParam().name;
  }
};

// Needs no cuDNN.
TEST_P(CudnnPlans, TheTableHoldsForEveryShippedConfigurationAndTest) {
  const PlansTable table(GetParam().name);
  std::map<AttentionPath, int> paths;
  int missing = 0;
  for (const Wanted& w : all_wanted_on(GetParam())) {
    const AttentionPath path = path_of(w);
    ++paths[path];
    if (size_of(w.a.act) != 2) continue;
    EXPECT_NE(path, AttentionPath::scalar) << text_of_wanted(w);
    const Answer* said = table.find(w.a, w.backward);
    if (!said) {
      ++missing;
      ADD_FAILURE() << text_of_wanted(w) << ": cuDNN was never asked; do so, and look at what it says:\n"
                    << "  ISOBAR_FILL_PLANS=1 build/test_cudnn_plans --gtest_filter='*TheTable*' && git diff "
                       "tests/golden";
      if (missing == 3) FAIL() << "and perhaps others";
      continue;
    }
    EXPECT_EQ(said->supported, path == AttentionPath::cudnn) << text_of_wanted(w) << ": " << said->plan;
    EXPECT_LE(said->workspace, w.declared)
        << text_of_wanted(w) << " by " << said->plan
        << ": mend cudnn_backward_bytes in model/backend/cuda/kernels/attention_path.cpp";
  }
  EXPECT_GT(paths[AttentionPath::cudnn], 20);
  EXPECT_GT(paths[AttentionPath::tensor_cores], 5) << "tf32";
}

// Tests that ask cuDNN itself
class CudnnAsked : public CudnnPlans {
 protected:
  void SetUp() override {
    if (!CudnnAttention::built()) GTEST_SKIP() << "built without cuDNN's frontend (bench/setup.sh brings it)";
    if (!dlopen(preload("stub_libcuda").c_str(), RTLD_NOW | RTLD_GLOBAL)) FAIL() << dlerror();
    properties_ = read_file((source_dir() + "/tests/cuda/gpus/") + GetParam().name + ".json");
    try {
      version_ = CudnnAttention::version();
    } catch (const std::runtime_error& e) {
      GTEST_SKIP() << e.what();
    }
  }
  // Its own choice, with any workspace.
  Answer ask(const Wanted& w) const {
    CudnnAttention cudnn(DescribedGpu{properties_, GetParam().sm});
    try {
      cudnn.prepare(w.a, w.backward, std::numeric_limits<int64_t>::max());
    } catch (const Failure& e) {
      std::string said = e.what();
      std::replace(said.begin(), said.end(), '\n', ' ');
      return {false, said, 0};
    }
    const CudnnPlan& plan = cudnn.plan(w.a, w.backward);
    return {true, plan.engine, plan.workspace};
  }
  std::string properties_, version_;
};

TEST_P(CudnnAsked, SaysWhatTheTableSays) {
  PlansTable table(GetParam().name);
  std::vector<Wanted> all = all_wanted_on(GetParam());
  all.erase(std::remove_if(all.begin(), all.end(), [](const Wanted& w) { return size_of(w.a.act) != 2; }),
            all.end());
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 engine(seed);
  std::shuffle(all.begin(), all.end(), engine);
  if (std::getenv("ISOBAR_FILL_PLANS")) {
    ASSERT_TRUE(table.version().empty() || table.version() == version_)
        << kPlansTable << " is of cuDNN " << table.version() << ", this is " << version_
        << ": empty it first";
    for (const Wanted& w : all)
      if (!table.find(w.a, w.backward)) table.add(w.a, w.backward, version_, ask(w));
  }
  int asked = 0;
  for (const Wanted& w : all) {
    const Answer* said = table.find(w.a, w.backward);
    if (!said) continue;  // another test reports it
    const Answer now = ask(w);
    if (table.version() == version_) {
      EXPECT_EQ(now, *said) << text_of_wanted(w);
    } else {
      EXPECT_EQ(now.supported, said->supported) << text_of_wanted(w) << ": " << now.plan;
      EXPECT_LE(now.workspace, w.declared) << text_of_wanted(w) << ": " << now.plan;
    }
    if (++asked == 3) break;
  }
  EXPECT_EQ(asked, 3);
}

// The workspace formula, on shapes outside the shipped configurations.
TEST_P(CudnnAsked, KeepsWithinWhatIsDeclaredForShapesDrawnAtRandom) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 engine(seed);
  const auto draw = [&](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(engine);
  };
  for (int i = 0; i < 2; ++i) {
    Attention a = attention_of(draw(1, 4), draw(1, 16), draw(2, 3000), draw(2, 3000), 8 * draw(1, 16),
                               i % 2 == 0 ? DType::bf16 : DType::f16);
    a.deterministic = draw(0, 1) == 1;
    const Wanted w{a, true, attention_workspace(a, true, GetParam().capability()), "drawn"};
    ASSERT_EQ(path_of(w), AttentionPath::cudnn) << text_of_wanted(w);
    const Answer now = ask(w);
    EXPECT_TRUE(now.supported) << text_of_wanted(w) << ": " << now.plan;
    EXPECT_LE(now.workspace, w.declared) << text_of_wanted(w) << ": " << now.plan;
  }
}

const Gpu kGpus[] = {{"a100", 80}, {"h100", 90}, {"b200", 100}};
std::string name_of_gpu(const ::testing::TestParamInfo<Gpu>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Gpus, CudnnPlans, ::testing::ValuesIn(kGpus), name_of_gpu);
INSTANTIATE_TEST_SUITE_P(Gpus, CudnnAsked, ::testing::ValuesIn(kGpus), name_of_gpu);

}  // namespace
}  // namespace isobar::cuda::testing
