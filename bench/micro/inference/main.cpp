// Latency of a net's predictions through the inference library: Google Benchmark cases on one thread.
//
//   build/inference_benchmark                       # from the repository's root
//   build/inference_benchmark --benchmark_repetitions=20 --benchmark_report_aggregates_only=true
//
// run/SAMPLES/BATCH: one call with this number of samples, computed BATCH at a time. The net is
// configs/models/mlp-emulator.yaml, untrained, from a checkpoint in a temporary folder. Counters: nanoseconds
// a sample, and FLOP/s of the matrix products.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/inference/arena.h"
#include "model/inference/library/isobar.h"
#include "model/inference/weights/checkpoint.h"
#include "model/inference/weights/params.h"
#include "model/nets/build.h"
#include "model/plan/ops/work.h"

namespace isobar::micro {
namespace {

namespace fs = std::filesystem;

RunSpec emulator() {
  RunSpec s = load_run_spec("configs/models/mlp-emulator.yaml");
  s.train.global_batch = s.policy.micro_batch = 1;
  return s;
}

double flops_of_a_sample(const plan::Plan& plan) {
  double sum = 0;
  for (const plan::Invocation& i : plan.eval) {
    const plan::Routine& r = plan.routines[i.routine];
    for (int32_t o = r.first; o < r.first + r.count; ++o) sum += plan::work(plan.ops[o], plan).flops;
  }
  return sum;
}

struct Saved {  // a checkpoint that is removed at the end
  Saved() : folder(made()), plan(nets::build_plan(emulator(), 0, {})) {
    const RunSpec spec = emulator();
    const inference::Arena arena(plan.memory.arena);
    const auto at = [&](const plan::View& v) {
      return reinterpret_cast<float*>(arena.data() + plan.buffers[v.buffer].offset) + v.offset;
    };
    inference::init_params(plan, 1, at(plan.params_all));
    inference::NetChannels channels;
    for (int64_t i = 0; i < spec.net.mlp().in_features; ++i)
      channels.inputs.push_back({"in" + std::to_string(i), "", 1, 2});
    for (int64_t i = 0; i < spec.net.mlp().out_features; ++i)
      channels.targets.push_back({"out" + std::to_string(i), "", 1, 2});
    inference::save_checkpoint(folder, plan, at(plan.params_all), at(plan.adam_m), at(plan.adam_v),
                               {.train = {.step = 1}, .spec = spec, .channels = channels}, {});
  }
  ~Saved() {
    std::error_code ignored;  // a leftover folder does no harm
    fs::remove_all(folder, ignored);
  }
  Saved(const Saved&) = delete;
  Saved& operator=(const Saved&) = delete;
  static fs::path made() {
    std::string name = fs::temp_directory_path() / "isobar-inference-XXXXXX";
    if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder: " + name);
    return name;
  }
  const fs::path folder;
  const plan::Plan plan;
};

void run(benchmark::State& state, const Saved& saved) {
  const int64_t samples = state.range(0);
  const isobar_options options{1, state.range(1)};
  isobar_net* net = nullptr;
  if (isobar_open(saved.folder.c_str(), &options, &net) != ISOBAR_OK)
    throw std::runtime_error(isobar_last_error());
  std::mt19937 random(1);
  std::normal_distribution<float> normal(1, 2);
  std::vector<float> in(samples * isobar_input_shape(net).channels),
      out(samples * isobar_output_shape(net).channels);
  for (float& x : in) x = normal(random);
  int code = ISOBAR_OK;
  for (auto _ : state) {
    code = std::max(code, isobar_run(net, samples, in.data(), out.data()));
    benchmark::ClobberMemory();
  }
  isobar_close(net);
  if (code != ISOBAR_OK) throw std::runtime_error(isobar_last_error());
  const double all = static_cast<double>(samples) * static_cast<double>(state.iterations());
  using benchmark::Counter;
  state.counters["ns/sample"] = Counter(all * 1e-9, Counter::kIsRate | Counter::kInvert);
  state.counters["FLOP/s"] = Counter(all * flops_of_a_sample(saved.plan), Counter::kIsRate);
}

int all_cases(int argc, char** argv) {
  const Saved saved;
  auto* cases = benchmark::RegisterBenchmark("run", [&](benchmark::State& state) { run(state, saved); });
  for (const auto& [samples, batch] : {std::pair{1, 1}, {4096, 64}, {4096, 256}, {4096, 1024}, {4096, 4096}})
    cases->Args({samples, batch});
  cases->UseRealTime();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace isobar::micro

int main(int argc, char** argv) {
  try {
    return isobar::micro::all_cases(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 2;
  }
}
