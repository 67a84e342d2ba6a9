// Inputs of op benchmarks have the right type and range, and stay normal numbers after thousands of
// iterations.
#include "bench/micro/inputs.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "bench/micro/cases.h"
#include "bench/micro/timed_step.h"
#include "model/backend/cpu/cpu_backend.h"
#include "model/nets/build.h"
#include "model/plan/ops/op_table.h"
#include "perfmodel/step/shapes.h"
#include "tests/paths.h"

namespace isobar::micro {
namespace {

RunSpec tiny(const std::string& amp) {
  return load_run_spec(source_dir() + "/configs/models/vit-tiny.yaml", {"policy.amp=" + amp});
}

float value(DType t, const std::byte* at, int64_t i) {
  const auto as = [&](auto x) {
    std::memcpy(&x, at + i * static_cast<int64_t>(sizeof(x)), sizeof(x));
    return x;
  };
  if (t == DType::bf16) return to_float(as(bf16{}));
  if (t == DType::f16) return to_float(as(f16{}));
  return as(float{});
}

// Zero or a normal number of its type
bool plain(DType t, float x) {
  if (t == DType::f16) return x == 0 || (std::isfinite(x) && std::abs(x) >= 0x1p-14f);
  return x == 0 || std::isnormal(x);
}

class Ops {  // of one plan, over an arena initialised to NaN
 public:
  explicit Ops(const RunSpec& spec)
      : plan(nets::build_plan(spec, 0, cpu_workspace(1))),
        arena(plan.memory.arena, std::byte{0xff}),
        backend(plan, arena.data()) {
    omp_set_num_threads(1);  // workspace is for one thread
  }
  void fill(const plan::Op& op) {
    fill_inputs(op, plan, [this](const plan::View& v) { return backend.at(v); });
  }
  DType type(const plan::View& v) const { return plan.buffers[v.buffer].dtype; }
  std::vector<const plan::Op*> distinct() const {  // distinct as in calibration
    std::vector<const plan::Op*> ops;
    std::set<std::string> seen;
    for (const plan::Op& op : plan.ops)
      if (op.kind != plan::OpKind::fetch && seen.insert(plan::name_of(op.kind) + perf::case_shape(op)).second)
        ops.push_back(&op);
    return ops;
  }
  const plan::Plan plan;
  std::vector<std::byte> arena;
  CpuBackend backend;
};

TEST(Inputs, AreFiniteNormalAndNothingButTheOperands) {
  for (const char* amp : {"none", "bf16", "fp16"}) {
    Ops ops(tiny(amp));
    for (const plan::Op* each : ops.distinct()) {
      const plan::Op& op = *each;
      SCOPED_TRACE(op.path + ", " + amp);
      std::fill(ops.arena.begin(), ops.arena.end(), std::byte{0xff});
      ops.fill(op);
      std::vector<bool> filled(ops.arena.size());
      for (const Operand& o : operands_of(op, ops.plan)) {
        const DType t = ops.type(o.view);
        const std::byte* at = ops.backend.at(o.view);
        int64_t small = 0;
        for (int64_t i = 0; i < o.view.count; ++i) {
          const float x = value(t, at, i);
          ASSERT_TRUE(std::isfinite(x)) << i;
          small += plain(t, x) ? 0 : 1;
        }
        EXPECT_LE(small, t == DType::f16 ? o.view.count / 200 : 0) << "denormals";
        std::fill_n(filled.begin() + (at - ops.arena.data()), o.view.count * size_of(t), true);
      }
      for (size_t i = 0; i < filled.size(); ++i)
        ASSERT_TRUE(filled[i] || ops.arena[i] == std::byte{0xff}) << "byte " << i << " is no operand's";
    }
  }
}

TEST(Inputs, AreScaledByWhatTheyMean) {
  for (const char* amp : {"none", "bf16"}) {
    Ops ops(tiny(amp));
    const auto deviation = [&](const plan::View& v) {
      double sum = 0;
      for (int64_t i = 0; i < v.count; ++i) {
        const double x = value(ops.type(v), ops.backend.at(v), i);
        sum += x * x;
      }
      return std::sqrt(sum / static_cast<double>(v.count));
    };
    int checked = 0;
    for (const plan::Op* each : ops.distinct()) {
      const plan::Op& op = *each;
      SCOPED_TRACE(op.path + ", " + amp);
      ops.fill(op);
      if (op.kind == plan::OpKind::activation_backward) {
        EXPECT_NEAR(deviation(op.reads[0]), 1, 0.1) << "activations";
        EXPECT_NEAR(deviation(op.reads[1]), 1e-3, 1e-4) << "gradients";
      } else if (op.kind == plan::OpKind::gemm && op.path.ends_with("/forward")) {
        EXPECT_NEAR(deviation(op.reads[1]), 0.02, 0.002) << "weights";
      } else if (op.kind == plan::OpKind::attention) {
        ops.backend.launch(op, 0, 0);
        const plan::View& lse = op.writes[1];
        const float want = std::log(static_cast<float>(op.as<plan::AttentionAttrs>().tk)) +
                           0.5f;  // input of the backward pass
        for (int64_t i = 0; i < lse.count; ++i)
          EXPECT_NEAR(value(DType::f32, ops.backend.at(lse), i), want, 1.5) << "probabilities";
      } else {
        continue;
      }
      ++checked;
    }
    EXPECT_GE(checked, 3);
  }
}

// As in calibration: filled once, then step after step on the previous results.
TEST(TimedStep, ComputesOnPlainNumbersFromTheFirstStepToTheLast) {
  for (const char* amp : {"none", "bf16"}) {
    TimedStep step(tiny(amp), 1);
    std::set<plan::OpKind> kinds;
    for (int i = 0; i < 30; ++i)
      step.run([&](const plan::Op& op, double seconds) {
        SCOPED_TRACE(op.path + ", " + amp + ", step " + std::to_string(i));
        EXPECT_GE(seconds, 0);
        kinds.insert(op.kind);
        for (const Operand& o : operands_of(op, step.plan)) {
          const DType t = step.plan.buffers[o.view.buffer].dtype;
          for (int64_t e = 0; e < o.view.count; ++e)
            ASSERT_TRUE(plain(t, value(t, step.at(o.view), e)))
                << "element " << e << " is " << value(t, step.at(o.view), e);
        }
      });
    EXPECT_TRUE(kinds.contains(plan::OpKind::activation_backward) && kinds.contains(plan::OpKind::adam));
  }
}

TEST(TimedStep, HasATimeForEachOpOfTheStep) {
  TimedStep step(tiny("bf16"), 1);  // begins with casts that steps do not repeat
  for (const plan::Op* op : step.distinct())
    for (int r = 0; r < TimedStep::kRepetitions; ++r)
      EXPECT_GT(step.seconds(step.name(*op), r), 0) << op->path;
}

TEST(Inputs, IndicesAreWithinTheirTable) {
  RunSpec spec = load_run_spec(source_dir() + "/configs/models/gpt3-175b.yaml", {});
  spec.net.words()->depth = 1;
  spec.layout = {};
  int seen = 0;
  const plan::Plan plan = nets::build_plan(spec, 0, {});
  for (const plan::Op& op : plan.ops)
    for (const Operand& o : operands_of(op, plan)) {
      if (plan.buffers[o.view.buffer].dtype != DType::i32 || op.kind == plan::OpKind::fetch) continue;
      ++seen;
      EXPECT_EQ(o.values.below, spec.net.words()->vocab_size) << op.path;
      std::vector<int32_t> indices(10'000);
      fill(o.values, DType::i32, static_cast<int64_t>(indices.size()), 1, indices.data());
      const auto [least, most] = std::minmax_element(indices.begin(), indices.end());
      EXPECT_GE(*least, 0);
      EXPECT_LT(*most, spec.net.words()->vocab_size);
      EXPECT_GT(*most, spec.net.words()->vocab_size * 9 / 10);
    }
  EXPECT_GE(seen, 3);
}

// Rows of tokens, of their copies, and of each expert, which follow one another
TEST(Inputs, IndicesOfExpertsAreWithinTheirRows) {
  const RunSpec spec = load_run_spec(source_dir() + "/configs/models/moe-tiny.yaml",
                                     {"train.global_batch=2", "policy.micro_batch=2"});
  constexpr int64_t kTokens = 2 * 64, kCopies = 2 * kTokens, kExperts = 8;
  const plan::Plan plan = nets::build_plan(spec, 0, {});
  std::set<std::string_view> seen;
  for (const plan::Op& op : plan.ops)
    for (const Operand& o : operands_of(op, plan)) {
      const auto role = std::find_if(op.reads.begin(), op.reads.end(), [&](const plan::View& v) {
        return v.buffer == o.view.buffer && v.offset == o.view.offset;
      });
      if (plan.buffers[o.view.buffer].dtype != DType::i32 || role == op.reads.end()) continue;
      const std::string_view name =
          plan::reads_of(op.kind)[static_cast<size_t>(role - op.reads.begin())].name;
      std::vector<int32_t> indices(static_cast<size_t>(o.view.count));
      fill(o.values, DType::i32, o.view.count, 1, indices.data());
      const auto [least, most] = std::minmax_element(indices.begin(), indices.end());
      EXPECT_GE(*least, 0) << op.path;
      const int64_t end = name == "order" ? kTokens : name == "place" ? kCopies : kExperts;
      if (name != "offsets" && name != "tokens" && name != "labels") {
        EXPECT_LT(*most, end) << op.path;
      }
      if (name == "offsets") {
        EXPECT_TRUE(std::is_sorted(indices.begin(), indices.end())) << op.path;
        EXPECT_EQ(*most, kCopies) << op.path;
      }
      seen.insert(name);
    }
  for (const char* name : {"order", "place", "chosen", "offsets"}) EXPECT_TRUE(seen.contains(name)) << name;
}

}  // namespace
}  // namespace isobar::micro
