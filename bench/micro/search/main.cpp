// Speed of the layout search: Google Benchmark cases of the closed form, on one core.
//
//   build/search_benchmark                       # from the repository's root
//   build/search_benchmark --benchmark_format=json
//
// Counters: layouts considered in one search, and a second of CPU time; layouts priced individually (the
// others exceed a lower bound or do not fit); distinct sections built. Nothing is cached between searches.
#include <benchmark/benchmark.h>

#include "perfmodel/ask/search.h"

namespace isobar::micro {
namespace {

struct Case {
  RunSpec spec;
  perf::Machine machine;
};

Case case_of(int64_t gpus) {
  Case c{load_run_spec("configs/models/gpt3-1t.yaml"), perf::load_machine("configs/machines/dgx-b200.yaml")};
  c.spec.layout = {.dp = gpus};
  c.spec.policy.micro_batch = 0;
  return c;
}

void run(benchmark::State& state, const perf::SearchOptions& options) {
  const Case c = case_of(state.range(0));
  perf::SearchResult r;
  while (state.KeepRunning()) {
    r = perf::search(c.spec, c.machine, options);
    benchmark::DoNotOptimize(r.considered);
  }
  const auto considered = static_cast<double>(r.considered);
  state.counters["considered"] = considered;
  state.counters["priced"] = static_cast<double>(r.priced);
  state.counters["too_large"] = static_cast<double>(r.too_large);
  state.counters["layouts/s"] =
      benchmark::Counter(considered * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void all_layouts(benchmark::State& state) {
  run(state, {.confirm = false});
}
void every_layout_priced(benchmark::State& state) {
  run(state, {.pareto = true, .confirm = false});
}
void one_d(benchmark::State& state) {
  run(state, {.confirm = false, .space = perf::SearchSpace::one_d()});
}
BENCHMARK(all_layouts)->Arg(1024)->Arg(16384)->Unit(benchmark::kMillisecond);
BENCHMARK(every_layout_priced)->Arg(16384)->Unit(benchmark::kMillisecond);
BENCHMARK(one_d)->Arg(1024)->Arg(16384)->Unit(benchmark::kMillisecond);

// Price of one layout with its sections cached
void one_cost(benchmark::State& state) {
  const Case c = case_of(16384);
  perf::LayoutModel model(c.spec, c.machine);
  perf::Layout l{.dp = 32, .tp = 8, .pp = 64, .sequence_parallel = true};
  while (state.KeepRunning()) {
    l.zero = static_cast<int8_t>((l.zero + 1) % 4);
    benchmark::DoNotOptimize(model.cost(l).seconds);
  }
  state.counters["layouts/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(one_cost);

// Unequal stages need an event-by-event evaluation
void one_cost_of_unequal_stages(benchmark::State& state) {
  RunSpec spec = load_run_spec("configs/models/aurora.yaml");
  spec.train.global_batch = 1024;
  perf::LayoutModel model(spec, perf::load_machine("configs/machines/dgx-b200.yaml"));
  perf::Layout l{.dp = 32, .tp = 1, .pp = static_cast<int32_t>(state.range(0)), .micro_batch = 1};
  while (state.KeepRunning()) {
    l.zero = static_cast<int8_t>((l.zero + 1) % 4);
    benchmark::DoNotOptimize(model.cost(l).seconds);
  }
  state.counters["layouts/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(one_cost_of_unequal_stages)->Arg(1)->Arg(4)->Arg(16);

}  // namespace
}  // namespace isobar::micro

BENCHMARK_MAIN();
