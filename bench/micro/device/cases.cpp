#include "bench/micro/device/cases.h"

#include <benchmark/benchmark.h>

#include <chrono>

#include "bench/micro/cases.h"
#include "bench/micro/device/timed_step.h"
#include "model/backend/cuda/cuda_backend.h"
#include "model/backend/cuda/executor.h"
#include "model/backend/cuda/kernels/kernels.h"
#include "model/backend/cuda/kernels/workspace.h"
#include "model/nets/build.h"
#include "model/plan/builder.h"
#include "model/plan/ops/work.h"
#include "perfmodel/fitting/calibrate.h"

namespace isobar::micro {
namespace {

constexpr int kRepetitions = 2;

void set_counters(benchmark::State& state, const plan::Work& w, double charged) {
  state.counters["ops"] = 1;
  // Zero counters are omitted, because their coefficient of variation over repetitions is NaN, which JSON
  // cannot hold.
  for (const auto& [name, value] : {std::pair{"flops", w.flops},
                                    {"charged_flops", charged},
                                    {"vector_flops", w.vector_flops},
                                    {"bytes", w.bytes()}})
    if (value > 0) state.counters[name] = value;
}

// The conditions of a timing.
void set_counters(benchmark::State& state, const DeviceTimer::Timing& t) {
  if (t.mhz > 0) state.counters["clock_mhz"] = t.mhz;
  if (t.watts > 0) state.counters["watts"] = t.watts;
  if (t.settled) state.counters["settled"] = 1;
  if (t.discarded > 0) state.counters["discarded"] = static_cast<double>(t.discarded);
}

void time_launches(benchmark::State& state, const DeviceTimer& timer, const DeviceTimer::Launch& launch) {
  const auto c = timer.prepare({launch}, 0);
  for ([[maybe_unused]] auto _ : state) {
    const DeviceTimer::Timing t = timer.time(*c);
    state.SetIterationTime(t.seconds.at(0));
    set_counters(state, t);
  }
}

template <class F>
void add_case(const std::string& name, F&& body) {
  register_case(name, std::forward<F>(body))->Iterations(1)->Repetitions(kRepetitions)->UseManualTime();
}

// Plan of one product of square matrices.
plan::Plan product(int64_t n, DType t, bool tf32, int capability) {
  plan::Builder b(0, 1, cuda_workspace(capability));
  const plan::View x = b.io("x", t, n * n), w = b.io("w", t, n * n), y = b.io("y", t, n * n);
  const int routine = b.begin("product", plan::Pass::forward);
  b.emit<plan::OpKind::gemm>("product", {.m = n, .n = n, .k = n, .trans_b = true, .tf32 = tf32},
                             {x, w, plan::View{}}, {y});
  b.end();
  b.plan.train = {{routine, 0, 0}};
  plan::place(b.plan);
  return std::move(b.plan);
}

bool is_attention(const plan::Op& op) {
  return op.kind == plan::OpKind::attention || op.kind == plan::OpKind::attention_backward;
}

void register_op(const std::shared_ptr<DeviceTimedStep>& step, const plan::Op& op, int repetition,
                 const DeviceTimer& timer) {
  register_case(step->name(op),
                [step, &op, repetition, &timer](benchmark::State& state) {
                  const DeviceTimedStep::Repetition& r = step->repetition(repetition);
                  for ([[maybe_unused]] auto _ : state) state.SetIterationTime(r.seconds.at(step->name(op)));
                  set_counters(state, plan::work(op, step->plan()),
                               perf::charged_flops(op, step->plan(), timer.device().multiprocessors));
                  set_counters(state, r.timing);
                  set_head(state, op);
                })
      ->Iterations(1)
      ->UseManualTime();
}

void register_ops(const std::vector<RunSpec>& specs, const DeviceTimer& timer,
                  bool (*chosen)(const plan::Op&)) {
  std::vector<std::shared_ptr<DeviceTimedStep>> steps;
  for (const RunSpec& spec : specs) steps.push_back(std::make_shared<DeviceTimedStep>(spec, timer));
  for (int r = 0; r < DeviceTimedStep::kRepetitions; ++r)
    for (const auto& step : steps)
      for (const plan::Op* op : step->distinct()) {
        // Attention in tf32 has no coefficient of its own.
        const bool priced = !plan::rounds_to_tf32(op->attrs) || op->kind == plan::OpKind::gemm;
        if (priced && chosen(*op)) register_op(step, *op, r, timer);
      }
}

}  // namespace

void register_device_op_cases(const std::vector<RunSpec>& specs, const DeviceTimer& timer) {
  register_ops(specs, timer, [](const plan::Op&) { return true; });
}

void register_device_attention_cases(const DeviceTimer& timer) {
  std::vector<RunSpec> specs;
  const auto add = [&](const char* kind) -> RunSpec& {
    RunSpec& spec = specs.emplace_back();
    spec.file = "calibrate";
    spec.net.set_kind(kind);
    spec.train.global_batch = spec.policy.micro_batch = 4;
    spec.policy.amp = Amp::bf16;
    return spec;
  };
  for (const int64_t head_size : {32, 64, 96, 128}) {
    VitSpec& net = add("vit").net.vit();
    net.num_heads = 8;
    net.embed_dim = 8 * head_size;
    net.depth = 1;
  }
  for (const int64_t head_size : {64, 128}) {  // causal
    GptSpec& net = add("gpt").net.gpt();
    net.num_heads = 8;
    net.embed_dim = 8 * head_size;
    net.depth = 1;
    net.seq_length = 4096;
    net.vocab_size = 1024;
  }
  register_ops(specs, timer, is_attention);
}

void register_device_peak_cases(const DeviceTimer& timer) {
  struct Peak {
    const char* name;
    DType t;
    bool tf32;
    int64_t n;
  };
  for (const Peak& p : {Peak{"f32", DType::f32, false, 4096}, Peak{"tf32", DType::f32, true, 8192},
                        Peak{"bf16", DType::bf16, false, 8192}})
    add_case("peak/" + std::string(p.name) + "/product" + std::to_string(p.n),
             [p, &timer](benchmark::State& state) {
               DeviceBench bench(product(p.n, p.t, p.tf32, timer.device().major), timer);
               const plan::Op& op = bench.plan.ops.at(0);
               time_launches(state, timer, [&](cudaStream_t s) { bench.backend.launch_on(op, 0, 0, s); });
               plan::Work w;
               w.flops = plan::work(op, bench.plan).flops;
               set_counters(state, w, 0);
             });
  add_case("stream/f32/copy", [&timer](benchmark::State& state) {
    constexpr int64_t bytes = int64_t{1} << 30;
    cuda::DeviceArena x(bytes), y(bytes);
    cuda::fill_noise(bytes, x.data(), timer.streams()[plan::Lane::compute]);
    time_launches(state, timer, [&](cudaStream_t s) {
      ISOBAR_CUDA(cudaMemcpyAsync(y.data(), x.data(), bytes, cudaMemcpyDeviceToDevice, s));
    });
    plan::Work w;
    w.bytes_read = w.bytes_written = static_cast<double>(bytes);
    set_counters(state, w, 0);
  });
  add_case("copy_host/f32/pinned", [&timer](benchmark::State& state) {
    constexpr int64_t bytes = int64_t{1} << 28;
    cuda::PinnedMemory from(bytes);
    cuda::DeviceArena to(bytes);
    time_launches(state, timer, [&](cudaStream_t s) {
      ISOBAR_CUDA(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyHostToDevice, s));
    });
    plan::Work w;
    w.bytes_written = static_cast<double>(bytes);
    set_counters(state, w, 0);
  });
}

void register_device_step_cases(const DeviceTimer& timer) {
  for (const int64_t depth : {1, 8}) {  // two depths separate the cost of a step from that of its ops
    RunSpec spec;
    spec.file = "calibrate";
    spec.net.vit().embed_dim = 64;
    spec.net.vit().num_heads = 4;
    spec.net.vit().depth = depth;
    spec.net.vit().img_height = 32;
    spec.net.vit().img_width = 64;
    spec.net.vit().in_channels = spec.net.vit().out_channels = 4;
    spec.train.global_batch = spec.policy.micro_batch = 1;
    spec.policy.amp = Amp::bf16;
    for (const bool step : {true, false}) {
      const std::string name =
          std::string(step ? "step" : "launch") + "/bf16/vit-d64-depth" + std::to_string(depth);
      register_case(
          name,
          [spec, step, &timer](benchmark::State& state) {
            DeviceBench bench(nets::build_plan(spec, 0, cuda_workspace(timer.device().major)), timer);
            bench.backend.on_fetch([](int32_t, const BatchPlaces&) {});
            const plan::Program program = plan::link(bench.plan, bench.plan.train);
            // Launched one by one, because replaying a graph leaves the host idle.
            cuda::DeviceExecutor run(bench.plan, bench.backend, nullptr, timer.streams(), {.graphs = step});
            run.keep(program);
            for (int i = 0; i < 3; ++i) run(program, i);
            using clock = std::chrono::steady_clock;
            for (auto _ : state) {
              const auto t0 = clock::now();
              if (step) {
                run(program, 3);
              } else {
                for (const plan::Instr& i : program.instrs)
                  if (bench.plan.ops[static_cast<size_t>(i.op)].kind != plan::OpKind::fetch)
                    bench.backend.launch(bench.plan.ops[static_cast<size_t>(i.op)], i.micro, i.slot);
              }
              state.SetIterationTime(std::chrono::duration<double>(clock::now() - t0).count());
              timer.streams().sync();
            }
            state.counters["ops"] = static_cast<double>(program.instrs.size());
          })
          ->Iterations(20)
          ->Repetitions(kRepetitions)
          ->UseManualTime();
    }
  }
}

void add_device_context(const DeviceTimer& timer) {
  const cuda::Device& d = timer.device();
  benchmark::AddCustomContext("accelerator", d.name);
  benchmark::AddCustomContext("processors", std::to_string(d.multiprocessors));
  benchmark::AddCustomContext("accelerator_memory_bytes", std::to_string(d.memory));
  benchmark::AddCustomContext("accelerator_cache_bytes", std::to_string(d.l2));
  const cuda::Devices all = cuda::find_devices();
  benchmark::AddCustomContext("accelerators", std::to_string(all.all.size()));
  benchmark::AddCustomContext("cuda_driver", std::to_string(all.driver));
  benchmark::AddCustomContext("cuda_runtime", std::to_string(all.runtime));
  const std::string& missing = timer.clocks().why();
  benchmark::AddCustomContext("throttled_samples", missing.empty() ? "discarded" : "not seen: " + missing);
}

}  // namespace isobar::micro
