// Predicted memory against actual use: the engine touches the last bytes of the planned arena and none
// beyond; a process's resident memory is the planned total plus a constant.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "model/backend/cpu/cpu_backend.h"
#include "model/backend/cpu/isa/kernels.h"
#include "model/engine/executor.h"
#include "model/inference/weights/params.h"
#include "model/nets/build.h"
#include "tests/engine/command.h"
#include "tests/engine/guarded_arena.h"

namespace isobar::engine {
namespace {

// Constant for allocations of libraries, JIT kernels, packing buffers and OpenMP, with one thread and no MPI.
// Pages of the program files are additional, because the kernel decides how many it maps.
constexpr double kProcessBytes = 6.5e6;

/// Memory of matrix products outside the arena: f32 copies of operands when a precision is emulated.
int64_t product_workspace(const plan::Plan& plan) {
  int64_t most = 0;
  for (const plan::Op& op : plan.ops)
    if (op.kind == plan::OpKind::gemm) most = std::max(most, cpu::gemm_workspace(cpu::gemm_of(op, plan)));
  return most;
}

TEST(Memory, AStepUsesThePlannedArenaToItsLastBytes) {
  const std::vector<Words> configurations = {
      {},
      {"policy.amp=bf16"},
      {"policy.amp=tf32"},
      {"policy.micro_batch=2"},
      {"policy.micro_batch=2", "policy.schedule=gpipe"},
      {"policy.micro_batch=1", "policy.schedule=gpipe", "policy.amp=bf16"},
      {"net.depth=1", "net.embed_dim=128"},
      {"net.embed_dim=72", "net.num_heads=3", "policy.micro_batch=4"},
      {"net.patch_size=4", "train.global_batch=3"},
      {"net.in_channels=5", "net.out_channels=5", "net.img_height=48", "net.img_width=40"},
      {"net.embed_dim=96", "net.num_heads=8", "net.depth=3", "policy.amp=bf16", "train.global_batch=2"}};
  omp_set_num_threads(1);
  for (const Words& set : configurations) {
    SCOPED_TRACE(testing::PrintToString(set));
    const RunSpec spec = load_run_spec(tiny(), set);
    const plan::Plan plan = nets::build_plan(spec, 0, cpu_workspace(1));
    const GuardedArena arena(plan.memory.arena);
    CpuBackend backend(plan, arena.data());
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    backend.on_fetch([&](int32_t, const BatchPlaces& to) {
      float *input = to.floats("input"), *target = to.floats("target");
      const int64_t n = spec.micro_batch() * spec.net.vit().in_channels * spec.net.vit().img_height *
                        spec.net.vit().img_width;
      for (int64_t i = 0; i < n; ++i) input[i] = normal(random), target[i] = normal(random);
    });
    const auto floats = [&](const plan::View& v) { return reinterpret_cast<float*>(backend.at(v)); };
    arena.poison(plan);
    inference::init_params(plan, 3, floats(plan.params_all));
    Executor execute(plan, backend, nullptr);
    execute(plan::link(plan, plan.init), 0);
    floats(plan.scalars)[plan::kLearningRate] = 1e-3f;
    floats(plan.scalars)[plan::kStep] = 1;
    floats(plan.scalars)[plan::kUnscale] = 1;
    execute(plan::link(plan, plan.train), 0);
    EXPECT_TRUE(std::isfinite(floats(plan.metrics)[0]));
    const Idle idle = arena.idle(plan);
    EXPECT_LT(idle.scratch, idle.excused) << "more scratch is planned than used";
    EXPECT_LT(idle.saved, kSlack) << "more activations are planned than used";
  }
}

TEST(Memory, ResidentMemoryIsWithin5PercentOfThePlanAndAConstant) {
  if (kSanitized) GTEST_SKIP() << "sanitizers keep memory of their own";
  const Words wide = {"net.img_height=128", "net.img_width=256", "net.embed_dim=128"};
  const auto with = [](Words a, const Words& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  const std::vector<Words> configurations = {
      {"net.embed_dim=512", "net.depth=4"},
      {"net.embed_dim=512", "net.depth=4", "policy.amp=bf16"},
      {"net.embed_dim=384", "net.depth=5", "net.num_heads=8"},
      wide,
      with(wide, {"policy.amp=bf16"}),
      with(wide, {"train.global_batch=16", "policy.micro_batch=4", "policy.schedule=gpipe"}),
      {"net.embed_dim=192", "net.depth=8", "net.img_height=64", "net.img_width=128"},
      {"net.in_channels=64", "net.out_channels=64", "train.global_batch=16", "net.img_height=64",
       "net.img_width=128"},
      {"net.img_height=256", "net.img_width=512", "net.patch_size=16", "data.workers=2", "data.prefetch=1",
       "train.steps=4"},
      {"net.img_height=512", "net.img_width=1024", "net.patch_size=32", "train.global_batch=16"}};
  double least = INFINITY, most = 0;
  for (const Words& set : configurations) {
    SCOPED_TRACE(testing::PrintToString(set));
    const RunSpec spec = load_run_spec(tiny(), set);
    const plan::Plan plan = nets::build_plan(spec, 0, cpu_workspace(1));
    const auto planned = static_cast<double>(plan.memory.total() + product_workspace(plan));
    const Folder dir;
    // The heap may retain freed blocks unpredictably, so large blocks are returned to the kernel at once.
    Words words = {"env", "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=262144"};
    const Words train =
        train_words(tiny(), with({"train.steps=2", "run.threads=1", "run.out=" + (dir / "run")}, set));
    words.insert(words.end(), train.begin(), train.end());
    const Ended e = Child(words).wait();
    ASSERT_EQ(e.code, 0) << e.text;
    const WrittenRun r = read_run(dir / "run");
    EXPECT_EQ(r.start["memory"]["arena"], plan.memory.arena);
    EXPECT_EQ(r.start["memory"]["total"], plan.memory.total());
    const double resident = r.end["peak_rss_bytes"].get<double>() - r.end["file_rss_bytes"].get<double>();
    EXPECT_NEAR(resident / (planned + kProcessBytes), 1, 0.05);
    std::printf("planned %7.1f MB, resident %7.1f MB: %5.1f MB beside the plan, %+.1f %% off\n",
                planned / 1e6, resident / 1e6, (resident - planned) / 1e6,
                100 * (resident / (planned + kProcessBytes) - 1));
    least = std::min(least, planned);
    most = std::max(most, planned);
  }
  EXPECT_LT(least, 100e6);
  EXPECT_GT(most, 700e6);
}

}  // namespace
}  // namespace isobar::engine
