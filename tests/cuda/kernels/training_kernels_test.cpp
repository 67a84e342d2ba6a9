// Whole nets: the same plan, data and initial values on the CPU and on the GPU, step by step.
#include <gtest/gtest.h>
#include <omp.h>

#include <random>

#include "model/backend/cpu/cpu_backend.h"
#include "model/backend/cuda/executor.h"
#include "model/backend/cuda/kernels/workspace.h"
#include "model/nets/build.h"
#include "tests/cuda/kernels/kernel_check.h"

namespace isobar::cuda::testing {
namespace {

RunSpec tiny() {
  RunSpec s;
  s.file = "test";
  s.net.vit().embed_dim = 32;
  s.net.vit().depth = 2;
  s.net.vit().num_heads = 2;
  s.net.vit().patch_size = 4;
  s.net.vit().mlp_ratio = 2;
  s.net.vit().img_height = 12;
  s.net.vit().img_width = 16;
  s.net.vit().in_channels = s.net.vit().out_channels = 3;
  s.train.global_batch = 4;
  s.train.steps = 20;
  return s;
}

struct Step {
  double loss, norm, scale;
};

// Samples by step and micro-batch, independent of the order of requests
void sample(uint64_t seed, int64_t step, int32_t micro, const plan::Plan& plan, int64_t samples, float* input,
            float* target) {
  std::mt19937_64 engine(seed + 1000 * static_cast<uint64_t>(step) + static_cast<uint64_t>(micro));
  std::normal_distribution<float> normal;
  const int64_t inputs = samples * plan.batch[0].sample, targets = samples * plan.batch[1].sample;
  for (int64_t i = 0; i < std::max(inputs, targets); ++i) {
    const float x = normal(engine), y = 0.5f * x + 0.1f * normal(engine);
    if (input && i < inputs) input[i] = x;
    if (target && i < targets) target[i] = y;
  }
}

void first_values(const plan::Plan& plan, uint64_t seed, float* params) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal;
  for (const plan::Param& p : plan.params)
    for (int64_t i = 0; i < p.count; ++i)
      params[p.offset + i] = p.init == plan::Init::one ? 1.0f : 0.1f * normal(engine);
}

void set_scalars(const RunSpec& spec, int64_t step, float* scalars) {
  if (step == 0) {
    scalars[plan::kStep] = 0;
    scalars[plan::kLossScale] = static_cast<float>(spec.train.initial_loss_scale);
    scalars[plan::kGoodSteps] = 0;
    scalars[plan::kUnscale] = 1;
  }
  scalars[plan::kLearningRate] = 1e-3f;
  if (spec.policy.amp != Amp::fp16) scalars[plan::kStep] = static_cast<float>(step + 1);
}

// `run(program, step)` on any backend
template <class Run>
std::vector<Step> train(const RunSpec& spec, const plan::Plan& plan, Backend& backend, uint64_t seed,
                        int64_t steps, const plan::Program& program, const Run& run) {
  const auto floats = [&](const plan::View& v) { return reinterpret_cast<float*>(backend.host(v)); };
  backend.load_constants();
  first_values(plan, seed, floats(plan.params_all));
  set_scalars(spec, 0, floats(plan.scalars));
  backend.upload({plan.params_all, plan.scalars});
  run(plan::link(plan, plan.init), 0);
  std::vector<Step> out;
  int64_t asked = 0;  // like a loader: each request gets the next sample
  for (int64_t step = 0; step < steps; ++step) {
    backend.on_fetch(
        [&](int32_t micro, const BatchPlaces& to) {
          float *input = to.floats("input"), *target = to.floats("target");
          EXPECT_FALSE(asked < spec.micro_batches() && backend.fetch_is_hidden()) << "nothing computes yet";
          sample(seed, asked++ / spec.micro_batches(), micro, plan, spec.micro_batch(), input, target);
        },
        step + 1 < steps);
    set_scalars(spec, step, floats(plan.scalars));
    backend.upload({plan.scalars});
    run(program, static_cast<int32_t>(step));
    backend.download({plan.metrics, plan.grad_norm2, plan.scalars});
    out.push_back({static_cast<double>(floats(plan.metrics)[0]),
                   static_cast<double>(floats(plan.grad_norm2)[0]),
                   static_cast<double>(floats(plan.scalars)[plan::kLossScale])});
  }
  return out;
}

std::vector<Step> on_cpu(const RunSpec& spec, uint64_t seed, int64_t steps, std::vector<float>& params) {
  const plan::Plan plan = nets::build_plan(spec, 0, cpu_workspace(omp_get_max_threads()));
  const plan::Program program = plan::link(plan, plan.train);
  std::vector<std::byte> arena(static_cast<size_t>(plan.memory.arena + 64)),
      host(static_cast<size_t>(plan.memory.host + 64));
  const auto aligned = [](std::vector<std::byte>& v) {
    return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(v.data()) + 63) / 64 * 64);
  };
  CpuBackend backend(plan, aligned(arena), aligned(host));
  const auto steps_done =
      train(spec, plan, backend, seed, steps, program, [&](const plan::Program& p, int32_t) {
        for (const plan::Instr& i : p.instrs)
          backend.launch(plan.ops[static_cast<size_t>(i.op)], i.micro, i.slot);
      });
  const auto* p = reinterpret_cast<const float*>(backend.at(plan.params_all));
  params.assign(p, p + plan.params_all.count);
  return steps_done;
}

std::vector<Step> on_gpu(const RunSpec& spec, uint64_t seed, int64_t steps, bool graphs, bool ahead,
                         std::vector<float>& params) {
  const plan::Plan plan = nets::build_plan(spec, 0, cuda_workspace());
  const plan::Program program = plan::link(plan, plan.train);
  const Streams streams;
  const DeviceArena arena(plan.memory.arena);
  EXPECT_EQ(arena.bytes(), plan.memory.arena);
  const PinnedMemory host(plan.memory.host);
  CudaBackend backend(plan, arena.data(), host.data(), streams,
                      {.gemm = spec.run.gemm_choice, .fuse = spec.run.fuse});
  backend.prepare();
#ifdef ISOBAR_EMULATED  // which has an algorithm for everything
  EXPECT_EQ(backend.fusions().empty(), fusible(plan).empty() || !spec.run.fuse);
  const bool tanh = spec.net.visit([](const auto& n) {
    if constexpr (requires { n.activation; }) return n.activation == Activation::gelu_tanh;
    if constexpr (requires { n.gelu; }) return n.gelu == Gelu::tanh;
    return false;
  });
  const bool both =
      tanh && spec.run.fuse &&
      size_of(plan.buffers[plan.params16_all ? plan.params16_all.buffer : plan.params_all.buffer].dtype) == 2;
  for (const Fused kind : {Fused::gelu, Fused::gelu_gradient})
    EXPECT_EQ(std::any_of(backend.fusions().begin(), backend.fusions().end(),
                          [&](const Fusion& f) { return f.kind == kind; }),
              both);
#endif
  DeviceExecutor run(plan, backend, nullptr, streams, {.graphs = graphs});
  run.keep(program, ahead);
  EXPECT_EQ(backend.inputs().landing_bytes() > 0, ahead);
  const auto steps_done = train(spec, plan, backend, seed, steps, program,
                                [&](const plan::Program& p, int32_t step) { run(p, step); });
  EXPECT_EQ(run.replays(), graphs ? steps - 1 : 0);
  // Routines are timed in every run, replays included, as often as the step invokes them.
  std::vector<int64_t> invoked(plan.routines.size());
  for (const plan::Invocation& i : plan.train) invoked[static_cast<size_t>(i.routine)] += steps;
  for (size_t r = 0; r < plan.routines.size(); ++r) {
    EXPECT_EQ(run.routine_times()[r].count, invoked[r]) << plan.routines[r].name;
    EXPECT_EQ(run.routine_times()[r].seconds > 0, invoked[r] > 0) << plan.routines[r].name;
  }
  backend.download({plan.params_all});
  const auto* p = reinterpret_cast<const float*>(backend.host(plan.params_all));
  params.assign(p, p + plan.params_all.count);
  return steps_done;
}

#ifdef ISOBAR_EMULATED
constexpr int64_t kMany = 6, kFew = 2;  // steps; two, so that a graph is replayed
constexpr double kLibraries = 1;
#else
constexpr int64_t kMany = 20, kFew = 20;
constexpr double kLibraries = 5;  // products in another order than the CPU's, magnified by Adam's first steps
#endif

// For streams; a device has its own.
#ifdef ISOBAR_EMULATED
using emulator::Schedule;
#else
enum class Schedule : uint8_t { random, oldest_first, newest_first };
void set_schedule(Schedule, uint64_t) {}
#endif

struct Case {
  const char* name;
  Amp amp;
  double tolerance;  // of losses, relative
  std::function<void(RunSpec&)> change;
  bool graphs = true;
  int64_t steps = kFew;
  bool ahead = true;
  Schedule schedule = Schedule::random;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

class Training : public ::testing::TestWithParam<Case> {};

TEST_P(Training, FollowsTheCpu) {
  ISOBAR_NEEDS_KERNELS();
  const Case& c = GetParam();
  const double tolerance = kLibraries * c.tolerance;
  RunSpec spec = tiny();
  spec.policy.amp = c.amp;
  c.change(spec);
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  set_schedule(c.schedule, seed);
  std::vector<float> want_params, got_params;
  const auto want = on_cpu(spec, seed, c.steps, want_params);
  const auto got = on_gpu(spec, seed, c.steps, c.graphs, c.ahead, got_params);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i].loss, want[i].loss, tolerance * std::abs(want[i].loss)) << "step " << i + 1;
    EXPECT_NEAR(got[i].norm, want[i].norm, 20 * tolerance * std::abs(want[i].norm)) << "step " << i + 1;
    EXPECT_EQ(got[i].scale, want[i].scale) << "step " << i + 1;
  }
  double error = 0, size = 0;
  for (size_t i = 0; i < want_params.size(); ++i) {
    error += std::pow(static_cast<double>(got_params[i]) - static_cast<double>(want_params[i]), 2);
    size += std::pow(static_cast<double>(want_params[i]), 2);
  }
  EXPECT_LE(std::sqrt(error / size), 10 * tolerance);
}

MlpSpec linears(Activation activation) {
  return {.in_features = 11, .out_features = 3, .hidden = {24, 24, 40}, .activation = activation};
}

// Predicts 5 x 5 points from them and 9 x 5 others
RegionalGnnSpec graph() {
  RegionalGnnSpec n;
  n.img_height = 9, n.img_width = 12, n.in_channels = 3, n.out_channels = 3;
  n.north = 52, n.west = 0, n.spacing = 1;
  n.downstream = {46, 50, 5, 9}, n.upstream = {44, 52, 1, 5}, n.boundary_longitude = 6;
  n.neighbors = 4, n.boundary_neighbors = 5;
  n.latent_size = 12, n.mlp_hidden_size = 20, n.num_gnn_layers = 2;
  return n;
}

const auto kAsItIs = [](RunSpec&) {};
const Case kCases[] = {
    {"f32", Amp::none, 1e-5, kAsItIs, true, kMany},
    {"f32_launched", Amp::none, 1e-5, kAsItIs, false},
    {"f32_fetched_at_once", Amp::none, 1e-5, kAsItIs, true, kFew, false},
    {"micro_batches_fetched_at_once", Amp::bf16, 2e-2, [](RunSpec& s) { s.policy.micro_batch = 1; }, true,
     kFew, false},
    {"micro_batches_fetched_at_once_launched", Amp::bf16, 2e-2, [](RunSpec& s) { s.policy.micro_batch = 1; },
     false, kFew, false},
    {"micro_batches_many_steps", Amp::bf16, 2e-2, [](RunSpec& s) { s.policy.micro_batch = 2; }, true, 5},
    {"tf32", Amp::tf32, 2e-3, kAsItIs},
    {"bf16", Amp::bf16, 2e-2, kAsItIs},
    {"fp16", Amp::fp16, 3e-3, [](RunSpec& s) { s.train.initial_loss_scale = 1024; }},
    {"bf16_tanh", Amp::bf16, 2e-2, [](RunSpec& s) { s.net.vit().gelu = Gelu::tanh; }},
    {"bf16_tanh_unfused", Amp::bf16, 2e-2,
     [](RunSpec& s) {
       s.net.vit().gelu = Gelu::tanh;
       s.run.fuse = false;
     }},
    {"fp16_tanh_micro_batches_timed", Amp::fp16, 3e-3,
     [](RunSpec& s) {
       s.net.vit().gelu = Gelu::tanh;
       s.policy.micro_batch = 1;
       s.train.initial_loss_scale = 1024;
       s.run.gemm_choice = GemmChoice::timed;
     }},
    {"f32_tanh", Amp::none, 1e-5, [](RunSpec& s) { s.net.vit().gelu = Gelu::tanh; }},
    {"micro_batches", Amp::bf16, 2e-2, [](RunSpec& s) { s.policy.micro_batch = 1; }},
    {"micro_batches_launched", Amp::none, 1e-5, [](RunSpec& s) { s.policy.micro_batch = 1; }, false},
    {"offload", Amp::none, 1e-5,
     [](RunSpec& s) {
       s.policy.offload_optimizer = true;
       s.policy.bucket_mb = 0.01;
     }},
    {"offload_launched_clip", Amp::bf16, 2e-2,
     [](RunSpec& s) {
       s.policy.offload_optimizer = true;
       s.policy.bucket_mb = 0.01;
       s.train.grad_clip = 0.1;
     },
     false},
    {"sgd_huber", Amp::none, 1e-5,
     [](RunSpec& s) {
       s.train.optimizer = OptimizerKind::sgd;
       s.train.loss = LossKind::huber;
       s.train.loss_weights = {0.5, 1, 2};
     }},
    {"recompute_bf16_gradients", Amp::bf16, 2e-2,
     [](RunSpec& s) {
       s.policy.recompute = Recompute::full;
       s.policy.main_grads_dtype = GradientType::bf16;
       s.policy.micro_batch = 2;
       s.train.optimizer = OptimizerKind::adamw;
       s.train.weight_decay = 0.1;
     }},
    {"odd_sizes", Amp::fp16, 3e-3,
     [](RunSpec& s) {
       s.net.vit().embed_dim = 30;
       s.net.vit().patch_size = 3;
       s.net.vit().img_width = 15;
       s.net.vit().in_channels = s.net.vit().out_channels = 5;
       s.train.initial_loss_scale = 1024;
       s.policy.recompute = Recompute::selective;
     }},
    {"mlp", Amp::none, 1e-5, [](RunSpec& s) { s.net = linears(Activation::silu); }, true, kMany},
    {"mlp_micro_batches_launched", Amp::bf16, 2e-2,
     [](RunSpec& s) {
       s.net = linears(Activation::relu);
       s.policy.micro_batch = 2;
       s.policy.recompute = Recompute::full;
       s.policy.recompute_num_layers = 2;
     },
     false},
    {"mlp_fused", Amp::fp16, 3e-3,
     [](RunSpec& s) {
       s.net = linears(Activation::gelu_tanh);
       s.train.initial_loss_scale = 1024;
     }},
    {"graph", Amp::none, 1e-5, [](RunSpec& s) { s.net = graph(); }},
    {"graph_micro_batches_launched", Amp::bf16, 2e-2,
     [](RunSpec& s) {
       s.net = graph();
       s.policy.micro_batch = 2;
       s.policy.recompute = Recompute::full;
     },
     false},
    {"graph_selective", Amp::fp16, 3e-3,
     [](RunSpec& s) {
       s.net = graph();
       s.policy.recompute = Recompute::selective;
       s.train.initial_loss_scale = 1024;
     }},
    {"mlp_tanh_huber", Amp::tf32, 2e-3,
     [](RunSpec& s) {
       s.net = linears(Activation::tanh);
       s.train.loss = LossKind::huber;
     }},
};
INSTANTIATE_TEST_SUITE_P(Kernels, Training, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

// Batches copied too early or too late: as late as possible (oldest_first: the input stream is created last),
// as early as possible (newest_first), and more batches a step than pinned buffers.
const auto kFourBatches = [](RunSpec& s) {
  s.net.vit().depth = 1;
  s.net.vit().embed_dim = 16;
  s.net.vit().img_height = s.net.vit().img_width = 8;
  s.policy.micro_batch = 1;
};
const Case kInputs[] = {
    {"late", Amp::none, 1e-5, kFourBatches, true, 4, true, Schedule::oldest_first},
    {"early", Amp::none, 1e-5, kFourBatches, true, 4, true, Schedule::newest_first},
    {"late_launched", Amp::none, 1e-5, kFourBatches, false, 4, true, Schedule::oldest_first},
    {"early_launched", Amp::none, 1e-5, kFourBatches, false, 4, true, Schedule::newest_first},
    {"late_at_once", Amp::none, 1e-5, kFourBatches, true, 4, false, Schedule::oldest_first},
    {"early_at_once", Amp::none, 1e-5, kFourBatches, true, 4, false, Schedule::newest_first},
    {"late_at_once_launched", Amp::none, 1e-5, kFourBatches, false, 4, false, Schedule::oldest_first},
    {"early_at_once_launched", Amp::none, 1e-5, kFourBatches, false, 4, false, Schedule::newest_first},
};
INSTANTIATE_TEST_SUITE_P(Inputs, Training, ::testing::ValuesIn(kInputs),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace isobar::cuda::testing
