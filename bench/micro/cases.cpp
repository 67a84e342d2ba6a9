#include "bench/micro/cases.h"

#include <benchmark/benchmark.h>
#include <omp.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "bench/micro/inputs.h"
#include "bench/micro/timed_step.h"
#include "model/backend/cpu/cpu_backend.h"
#include "model/backend/cpu/isa/kernels.h"
#include "model/base/system/cpus.h"
#include "model/base/text/progress.h"
#include "model/engine/executor.h"
#include "model/engine/host/host.h"
#include "model/inference/arena.h"
#include "model/nets/build.h"
#include "model/plan/builder.h"
#include "model/plan/ops/work.h"

namespace isobar::micro {
namespace {

constexpr double kMinTime = 0.012;  // seconds a case that runs alone is measured in each repetition
constexpr int kRepetitions = 3;
constexpr int64_t kSumsInPlace = 16;  // collectives between refills: sums multiply values by the ranks
int registered = 0;

void set_counters(benchmark::State& state, const plan::Work& w, int threads, int64_t ranks) {
  state.counters["ops"] = 1;
  // Zero counters are omitted, because their coefficient of variation over repetitions is NaN, which JSON
  // cannot hold.
  for (const auto& [name, value] : {std::pair{"flops", w.flops},
                                    {"vector_flops", w.vector_flops},
                                    {"bytes", w.bytes()},
                                    {"wire_bytes", w.wire_bytes},
                                    {"messages", w.messages}})
    if (value > 0) state.counters[name] = value;
  state.counters["threads"] = threads;
  state.counters["ranks"] = static_cast<double>(ranks);
}

template <class F>
void add_case(const std::string& name, F&& body) {
  register_case(name, std::forward<F>(body))->MinTime(kMinTime)->Repetitions(kRepetitions)->UseRealTime();
}

}  // namespace

benchmark::internal::Benchmark* register_case(const std::string& name,
                                              std::function<void(benchmark::State&)> body) {
  ++registered;
  return benchmark::RegisterBenchmark(name.c_str(), std::move(body));
}

void set_head(benchmark::State& state, const plan::Op& op) {
  if (op.kind != plan::OpKind::attention && op.kind != plan::OpKind::attention_backward) return;
  const auto& a = op.as<plan::AttentionAttrs>();
  state.counters["head_size"] = static_cast<double>(a.d);
  if (a.causal) state.counters["causal"] = 1;
}

namespace {

void register_op_case(const std::shared_ptr<TimedStep>& step, const plan::Op& op, int repetition,
                      int64_t ranks, bool own_shape) {
  register_case(step->name(op),
                [step, &op, repetition, ranks, own_shape](benchmark::State& state) {
                  for (auto _ : state) state.SetIterationTime(step->seconds(step->name(op), repetition));
                  set_counters(state, plan::work(op, step->plan), step->threads(), ranks);
                  set_head(state, op);
                  if (own_shape) state.counters["own_shape"] = 1;
                })
      ->Iterations(1)
      ->UseManualTime();
}

}  // namespace

void register_op_cases(const std::vector<RunSpec>& specs, const std::vector<int>& threads, int64_t ranks) {
  std::vector<std::shared_ptr<TimedStep>> steps;
  for (const RunSpec& spec : specs)
    for (const int t : threads) steps.push_back(std::make_shared<TimedStep>(spec, t));
  for (int r = 0; r < TimedStep::kRepetitions; ++r)
    for (const auto& step : steps)
      for (const plan::Op* op : step->distinct()) register_op_case(step, *op, r, ranks, false);
}

bool register_shape_cases(const RunSpec& spec, int threads, std::set<std::string>& known) {
  const auto step = std::make_shared<TimedStep>(spec, threads);
  std::vector<const plan::Op*> fresh;
  for (const plan::Op* op : step->distinct())
    if (known.insert(step->name(*op)).second) fresh.push_back(op);
  for (int r = 0; r < TimedStep::kRepetitions; ++r)
    for (const plan::Op* op : fresh) register_op_case(step, *op, r, 1, true);
  return !fresh.empty();
}

void register_peak_cases(int threads) {
  for (const DType t : {DType::f32, DType::bf16}) {
    const std::string name =
        std::string("peak/") + name_of(t) + "/product512/threads" + std::to_string(threads);
    add_case(name, [t, threads](benchmark::State& state) {
      omp_set_num_threads(threads);
      constexpr int64_t n = 512;
      std::vector<float> a(n * n), b(n * n), c(n * n);  // large enough for either type
      fill({}, t, n * n, 0, a.data());
      fill({}, t, n * n, 1, b.data());
      const cpu::Gemm g{n, n, n, false, true, t, t, t, false, false};
      cpu::gemm(g, a.data(), b.data(), nullptr, c.data());
      for (auto _ : state) cpu::gemm(g, a.data(), b.data(), nullptr, c.data());
      plan::Work w;
      w.flops = 2.0 * n * n * n;
      set_counters(state, w, threads, 1);
    });
  }
  add_case("stream/f32/threads" + std::to_string(threads), [threads](benchmark::State& state) {
    omp_set_num_threads(threads);
    constexpr int64_t n = int64_t{1} << 25;  // 2 x 128 MiB: larger than any cache
    std::vector<float> x(n, 1.0f), y(n, 1.0f);
    for (auto _ : state) cpu::add(n, x.data(), y.data());
    plan::Work w;
    w.bytes_read = 2.0 * n * sizeof(float);
    w.bytes_written = 1.0 * n * sizeof(float);
    set_counters(state, w, threads, 1);
  });
}

// Plan of one collective over all ranks. Operands are placed as nets place them: parts are views of the
// whole.
plan::Plan plan_of_collective(plan::OpKind kind, DType t, int64_t count, const comm::Mpi& mpi) {
  plan::Builder b(mpi.rank(), mpi.size(), {});
  std::vector<int> ranks(mpi.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  plan::TransferAttrs a;
  a.group = b.group("dp", ranks);
  const plan::View whole = b.io("whole", t, count);
  const int64_t part = count / mpi.size();
  const plan::View own = whole.slice(mpi.rank() * part, part);
  const int routine = b.begin("collective", plan::Pass::backward);
  const auto emit = [&](const plan::View& in, const plan::View& out) {
    b.emit(kind, plan::name_of(kind), a, {in}, {out}, plan::Lane::dp);
  };
  switch (kind) {
    case plan::OpKind::all_gather:
      emit(own, whole);
      break;
    case plan::OpKind::reduce_scatter:
      emit(whole, own);
      break;
    case plan::OpKind::all_to_all:
    case plan::OpKind::exchange:
      emit(whole, b.io("received", t, count));
      break;
    default:
      emit(whole, whole);
  }
  b.end();
  b.plan.train = {{routine, 0, 0}};
  plan::place(b.plan);
  return std::move(b.plan);
}

void register_collective_cases(const comm::Mpi& mpi, int threads, bool between_hosts) {
  for (const plan::OpKind kind : {plan::OpKind::all_reduce, plan::OpKind::reduce_scatter,
                                  plan::OpKind::all_gather, plan::OpKind::all_to_all, plan::OpKind::exchange})
    for (const DType t : {DType::f32, DType::bf16})
      for (const int64_t count : {int64_t{64}, int64_t{1} << 12, int64_t{1} << 16, int64_t{1} << 18,
                                  int64_t{1} << 20, int64_t{1} << 22}) {
        const bool sums = kind == plan::OpKind::all_reduce || kind == plan::OpKind::reduce_scatter;
        if (between_hosts && (kind != plan::OpKind::all_reduce || t != DType::f32)) continue;
        if (t == DType::bf16 && !sums) continue;  // copies of bf16 are covered by bytes
        const std::string name = std::string(plan::name_of(kind)) + "/" + name_of(t) + "/" +
                                 std::to_string(count * size_of(t)) + "B/ranks" + std::to_string(mpi.size());
        ++registered;
        benchmark::RegisterBenchmark(
            name.c_str(),
            [&mpi, threads, kind, t, count](benchmark::State& state) {
              omp_set_num_threads(threads);
              const plan::Plan plan = plan_of_collective(kind, t, count, mpi);
              const plan::Program program = plan::link(plan, plan.train);
              inference::Arena arena(plan.memory.arena);
              CpuBackend backend(plan, arena.data());
              const auto refill = [&] {
                fill_inputs(plan.ops[0], plan, [&](const plan::View& v) { return backend.at(v); });
                mpi.barrier();
              };
              comm::Comm comm(plan.groups);
              // The computing thread moves the data: in a step the communication thread is already awake when
              // the first gradients are ready, so a hand-over would measure a cost that steps do not have.
              engine::Waiting waiting =
                  engine::waiting_among(threads, mpi.size(), mpi.ranks_on_host(), engine::cores_of(mpi));
              waiting.comm_thread = false;
              engine::Executor run(plan, backend, &comm, waiting);
              run(program, 0);
              refill();
              int64_t done = 0;
              for (auto _ : state) {
                run(program, 0);
                if (++done % kSumsInPlace != 0) continue;
                state.PauseTiming();
                refill();
                state.ResumeTiming();
              }
              set_counters(state, plan::work(plan.ops[0], plan), threads, mpi.size());
            })
            ->Iterations(count > (1 << 18) ? 20 : 200)  // the same on every rank
            ->Repetitions(3)
            ->UseRealTime();
      }
}

namespace {

// Collects Google Benchmark's JSON in a string and shows progress on the terminal.
class Collector : public benchmark::JSONReporter {
 public:
  explicit Collector(Progress& progress) : progress_(progress) {}
  bool ReportContext(const Context& context) override {
    return benchmark::JSONReporter::ReportContext(context);
  }
  void ReportRuns(const std::vector<Run>& runs) override {
    const bool measured = !runs.empty() && runs[0].run_type == Run::RT_Iteration;  // not an aggregate
    if (measured) progress_.update(++done_, runs[0].run_name.function_name);
    benchmark::JSONReporter::ReportRuns(runs);
  }

 private:
  Progress& progress_;
  int64_t done_ = 0;
};

void add_context() {
  static bool once = false;
  if (std::exchange(once, true)) return;
  const nlohmann::json p = engine::provenance();
  benchmark::AddCustomContext("cpu", p["cpu"].get<std::string>());
  benchmark::AddCustomContext("isa", p["bf16_mode"].get<std::string>());
  benchmark::AddCustomContext("cores", std::to_string(engine::cores()));
  benchmark::AddCustomContext("memory_bytes",
                              std::to_string(::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGE_SIZE)));
  if (benchmark::CPUInfo::Get().caches.empty()) {  // no sysfs: ask the C library
    const int64_t l3 = sysconf(_SC_LEVEL3_CACHE_SIZE), l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    benchmark::AddCustomContext("cache_bytes", std::to_string(std::max({l3, l2, int64_t{1} << 20})));
  }
  benchmark::AddCustomContext("commit", p["commit"].get<std::string>());
  benchmark::AddCustomContext("onednn", p["onednn"].get<std::string>());
}

}  // namespace

nlohmann::json run_registered(const std::string& title, bool show_progress) {
  add_context();
  std::ostringstream out, errors;
  {
    Progress progress(title, registered, show_progress);
    Collector collector(progress);
    collector.SetOutputStream(&out);
    collector.SetErrorStream(&errors);
    benchmark::RunSpecifiedBenchmarks(&collector);
  }
  benchmark::ClearRegisteredBenchmarks();
  registered = 0;
  nlohmann::json j = nlohmann::json::parse(out.str(), nullptr, false);
  if (!j.is_object()) throw std::runtime_error("Google Benchmark wrote no JSON: " + errors.str());
  return j;
}

}  // namespace isobar::micro
