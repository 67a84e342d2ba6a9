// Asks cuDNN about every attention of the shipped configurations and tests on A100, H100 and B200, forward
// and backward, for micro-batches of 1 to 64: supported, and within the declared workspace. cuDNN plans for
// described GPUs (gpus/*.json) over stubs of the driver and of NVRTC (stub_libcuda.c, stub_libnvrtc.c), which
// need a process of their own. Plans are made by CudnnAttention, as in a run.
//
// A sample adds the same bytes each, so what is asked for many samples gives the bytes of every batch.
// Answers of several versions are kept in kernels/attention/cudnn_workspaces.inc. To ask about new shapes, or
// another version (add it to kCudnnAsked first):
//
//   ISOBAR_FILL_PLANS=1 build/test_cudnn_plans --gtest_filter='*Asked*Table*' && git diff model
//   LD_LIBRARY_PATH=…/nvidia/cudnn/lib ISOBAR_FILL_PLANS=1 build/test_cudnn_plans
//   --gtest_filter='*Asked*Table*'
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <random>

#include "model/backend/cuda/kernels/attention/attention_choice.h"
#include "model/backend/cuda/kernels/workspace.h"
#include "model/backend/cuda/libraries/attention_cudnn.h"
#include "model/backend/cuda/runtime/device.h"
#include "model/base/system/files.h"
#include "model/nets/build.h"
#include "model/plan/ops/operands.h"
#include "tests/cuda/kernels/attention_shapes.h"
#include "tests/cuda/kernels/shipped.h"
#include "tests/paths.h"

namespace isobar::cuda::testing {
namespace {

constexpr int64_t kMicroBatches = 64;
constexpr int64_t kMany = 4096;  // samples: more than the bytes that no sample adds

struct Gpu {
  const char* name;
  int sm;
  int capability() const { return sm / 10; }
  friend void PrintTo(const Gpu& g, std::ostream* out) { *out << g.name; }
};

struct Wanted {  // one attention, of a micro-batch of 1, and its first user
  Attention a;
  bool backward;
  std::string who;
};

/// Every shape once, whatever its batch and type of 16 bits.
std::vector<Wanted> wanted_on(const Gpu& gpu) {
  std::map<std::pair<bool, CudnnShape>, Wanted> all;
  const auto add = [&](Attention a, bool backward, const std::string& who) {
    if (a.last_more != 0 || a.biased) return;  // own kernels (cudnn_takes)
    if (few_tokens(a)) return;
    if (a.causal && a.shift() != a.tk - a.tq) return;  // the mask of a part of the queries: the same
    for (const bool deterministic : {false, true}) {
      a.deterministic = deterministic;
      if (backward || !deterministic)  // forward does not depend on it
        all.try_emplace({backward, shape_of(a, gpu.capability())}, Wanted{a, backward, who});
    }
  };
  for (const ShippedRun& run : shipped_runs()) {
    RunSpec one = run.spec;
    one.policy.micro_batch = 1;
    std::vector<int> ranks{0};
    if (one.layout.cp > 1)
      ranks.push_back(static_cast<int>(one.layout.world() - 1));  // fewer tokens, if they are uneven
    for (const int rank : ranks) {
      const plan::Plan plan = nets::build_plan(one, rank, cuda_workspace(gpu.capability()));
      for (const plan::Op& op : plan.ops) {
        const bool backward = op.kind == plan::OpKind::attention_backward;
        if (!backward && op.kind != plan::OpKind::attention) continue;
        const DType act = plan.buffers[static_cast<size_t>(op.reads[0].buffer)].dtype;
        Attention a = cuda::attention_of(op.as<plan::AttentionAttrs>(), act, false);
        a.biased = static_cast<bool>(plan::bias_of_scores(op));
        EXPECT_GE(op.writes.back().count * 4, attention_workspace(a, backward, gpu.capability())) << op.path;
        if (size_of(act) == 2) add(a, backward, run.name);
      }
    }
  }
  for (const Attention& a : tested_attentions())
    for (const bool backward : {false, true}) add(a, backward, "tests");
  std::vector<Wanted> list;
  for (auto& [key, w] : all) list.push_back(std::move(w));
  return list;
}

/// Answers about backward, shape by shape. A version that says what the one before it said has no row.
class Table {
 public:
  Table() {
    for (const CudnnRow& r : cudnn_rows()) rows_[shape_of(r)].push_back(r);
  }
  std::vector<CudnnRow> of(const CudnnShape& shape) const {
    const auto at = rows_.find(shape);
    return at == rows_.end() ? std::vector<CudnnRow>{} : at->second;
  }
  /// Null if no version up to this one was asked.
  const CudnnRow* find(const CudnnShape& shape, int64_t version) const {
    const auto at = rows_.find(shape);
    const CudnnRow* last = nullptr;
    if (at != rows_.end())
      for (const CudnnRow& r : at->second)
        if (r.version <= version) last = &r;
    return last;
  }
  void add(const CudnnRow& row) {
    const CudnnRow* before = find(shape_of(row), row.version);
    if (before && before->bytes == row.bytes && before->bytes_a_sample == row.bytes_a_sample) return;
    std::vector<CudnnRow>& list = rows_[shape_of(row)];
    list.push_back(row);
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.version < b.version; });
  }
  void write() const {
    std::ofstream out(source_dir() + "/model/backend/cuda/kernels/attention/cudnn_workspaces.inc");
    out << "// Written by tests/cuda/cudnn_plans.cpp. A row: the GPU's capability and cuDNN's version; "
           "causal,\n"
           "// deterministic; heads, heads of keys, queries, keys, head size; bytes and bytes a sample (-1, "
           "0:\n"
           "// refused).\n";
    for (const auto& [shape, list] : rows_)
      for (const CudnnRow& r : list)
        out << "{" << r.capability << ", " << r.version << ", " << r.causal << ", " << r.deterministic << ", "
            << r.heads << ", " << r.kv_heads << ", " << r.tq << ", " << r.tk << ", " << r.d << ", " << r.bytes
            << ", " << r.bytes_a_sample << "},\n";
  }

 private:
  std::map<CudnnShape, std::vector<CudnnRow>> rows_;
};

class CudnnPlans : public ::testing::TestWithParam<Gpu> {
 protected:
  int capability() const { return GetParam().capability(); }
  std::string text_of_wanted(const Wanted& w) const {
    return text_of(w.a, w.backward) + " (" + w.who + ") on " + GetParam().name;
  }
  /// Blackwell's sums in a fixed order came with 9.18; with an older version a run leaves them to our own
  /// kernels.
  bool too_old(const Attention& a, bool backward, int64_t version) const {
    return capability() == 10 && backward && a.deterministic && version < 91800;
  }
};

// Needs no cuDNN.
TEST_P(CudnnPlans, DeclaredWorkspacesHoldWhatEveryVersionSaid) {
  const Table table;
  int missing = 0, by_cudnn = 0;
  for (const Wanted& w : wanted_on(GetParam())) {
    const AttentionPath path = attention_path(w.a, w.backward, capability(), true, AttentionChoice::cudnn);
    EXPECT_NE(path, AttentionPath::scalar) << text_of_wanted(w);
    by_cudnn += path == AttentionPath::cudnn;
    if (!w.backward) continue;
    const std::vector<CudnnRow> said = table.of(shape_of(w.a, capability()));
    if (said.empty()) {
      ADD_FAILURE() << text_of_wanted(w) << ": cuDNN was never asked; do so, as the head of this file says";
      if (++missing == 3) FAIL() << "and perhaps others";
    }
    for (const CudnnRow& row : said) {
      SCOPED_TRACE(text_of_wanted(w) + " by cuDNN " + std::to_string(row.version));
      EXPECT_EQ(row.refused(), path != AttentionPath::cudnn);
      for (int64_t micro = 1; micro <= kMicroBatches && !row.refused(); ++micro) {
        Attention a = w.a;
        a.batch *= micro;
        ASSERT_LE(row.of(a.batch), attention_workspace(a, true, capability())) << "micro-batch " << micro;
      }
    }
  }
  EXPECT_GT(by_cudnn, 200);
}

// The form holds for shapes that cuDNN was never asked about, so it must for those that it was.
TEST_P(CudnnPlans, TheFormHoldsWithoutTheTable) {
  for (const CudnnRow& row : cudnn_rows()) {
    if (row.capability != capability() || row.refused()) continue;
    for (const int64_t batch : {int64_t{1}, int64_t{7}, kMany}) {
      Attention a = attention_of(batch, row.heads, row.tq, row.tk, row.d, DType::bf16);
      a.kv_heads = row.kv_heads;
      a.deterministic = row.deterministic != 0;
      EXPECT_LE(row.of(batch), workspace_by_form(a, capability())) << text_of(a, true);
    }
  }
}

/// Tests that ask cuDNN itself
class CudnnAsked : public CudnnPlans {
 protected:
  void SetUp() override {
    if (!CudnnAttention::built()) GTEST_SKIP() << "built without cuDNN's frontend (bench/setup.sh brings it)";
    for (const char* stub : {"stub_libcuda", "stub_libnvrtc"})
      if (!dlopen(preload(stub).c_str(), RTLD_NOW | RTLD_GLOBAL)) FAIL() << dlerror();
    properties_ = read_file((source_dir() + "/tests/cuda/gpus/") + GetParam().name + ".json");
    try {
      version_ = CudnnAttention::version_number();
    } catch (const std::runtime_error& e) {
      GTEST_SKIP() << e.what();
    }
    known_ = std::find(kCudnnAsked.begin(), kCudnnAsked.end(), version_) != kCudnnAsked.end();
  }
  /// Bytes of its own choice, with any workspace; kRefused, and why.
  int64_t ask(const Attention& a, bool backward, std::string* why = nullptr) const {
    CudnnAttention cudnn(DescribedGpu{properties_, GetParam().sm});
    try {
      cudnn.prepare(a, backward, std::numeric_limits<int64_t>::max());
    } catch (const Failure& e) {
      if (why) *why = e.what();
      return CudnnRow::kRefused;
    }
    return cudnn.plan(a, backward).workspace;
  }
  void fill(Table& table, const Wanted& w) const {
    if (!w.backward || too_old(w.a, true, version_)) return;
    Attention many = w.a;
    many.batch = kMany;
    const CudnnShape s = shape_of(w.a, capability());
    CudnnRow row{s[0], version_, s[1], s[2], s[3], s[4], s[5], s[6], s[7], ask(many, true), 0};
    if (!row.refused()) {
      row.bytes_a_sample = row.bytes / kMany;
      row.bytes %= kMany;
    }
    table.add(row);
  }
  std::string properties_;
  int64_t version_ = 0;
  bool known_ = false;
};

// Every shape, at a micro-batch and in a type drawn at random.
TEST_P(CudnnAsked, SaysWhatTheTableSays) {
  Table table;
  const std::vector<Wanted> all = wanted_on(GetParam());
  if (std::getenv("ISOBAR_FILL_PLANS")) {
    ASSERT_TRUE(known_) << "add " << version_ << " to kCudnnAsked";
    for (const Wanted& w : all) fill(table, w);
    table.write();
  }
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 engine(seed);
  for (Wanted w : all) {
    w.a.batch *= std::uniform_int_distribution<int64_t>(1, kMicroBatches)(engine);
    w.a.act = engine() % 2 == 0 ? DType::bf16 : DType::f16;
    std::string why;
    const int64_t now = ask(w.a, w.backward, &why);
    SCOPED_TRACE(text_of_wanted(w) + " by cuDNN " + std::to_string(version_) + " " + why);
    const bool refused = now == CudnnRow::kRefused;
    EXPECT_EQ(refused, attention_path(w.a, w.backward, capability(), true, AttentionChoice::cudnn) !=
                               AttentionPath::cudnn ||
                           too_old(w.a, w.backward, version_));
    EXPECT_LE(now, attention_workspace(w.a, w.backward, capability()));
    const CudnnRow* said = w.backward ? table.find(shape_of(w.a, capability()), version_) : nullptr;
    if (!known_ || !said) continue;  // another test reports what is missing
    EXPECT_EQ(refused, said->refused());
    if (!refused) {
      EXPECT_EQ(now, said->of(w.a.batch));
    }
  }
}

// The form, on shapes outside the shipped configurations.
TEST_P(CudnnAsked, KeepsWithinWhatIsDeclaredForShapesDrawnAtRandom) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 engine(seed);
  const auto draw = [&](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(engine);
  };
  for (int i = 0; i < 50; ++i) {
    Attention a = attention_of(draw(1, 4000), draw(1, 16), draw(2, 3000), draw(2, 3000), 8 * draw(1, 16),
                               i % 2 == 0 ? DType::bf16 : DType::f16);
    a.deterministic = draw(0, 1) == 1;
    if (draw(0, 2) == 0) {
      if (a.tq > a.tk) std::swap(a.tq, a.tk);
      a.causal = true, a.window = draw(1, a.tk);
    }
    if (few_tokens(a)) continue;
    const std::string what = text_of(a, true);
    ASSERT_EQ(attention_path(a, true, capability(), true, AttentionChoice::cudnn), AttentionPath::cudnn)
        << what;
    std::string why;
    const int64_t now = ask(a, true, &why);
    EXPECT_EQ(now == CudnnRow::kRefused, too_old(a, true, version_)) << what << why;
    EXPECT_LE(now, attention_workspace(a, true, capability())) << what;
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
