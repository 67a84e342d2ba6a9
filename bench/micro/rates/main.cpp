// Roofline of a training step on this CPU: achieved share of the ceiling for each class of ops and each op,
// by share of the step.
//
//   build/op_rates configs/models/vit-384.yaml policy.amp=bf16 --threads 2   # keys as `--set` takes them
//   build/op_rates configs/models/vit-384.yaml --json > rates.json           # as tests/studies/results keeps
//   it
//
// Ops are timed within their step (timed_step.h), so operands are where the previous ops left them; work
// counts are the plan's (work.h). Ceilings are measured before on the same threads: for a product the same
// product by oneDNN alone on warm operands; for attention products of 512 x 512 x 512 in the step's type; for
// other ops a copy of 128 MiB, which ops with operands in cache can exceed.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/micro/inputs.h"
#include "bench/micro/timed_step.h"
#include "model/backend/cpu/cpu_backend.h"
#include "model/base/error.h"
#include "model/engine/host/host.h"
#include "model/plan/ops/op_table.h"
#include "model/plan/ops/work.h"

namespace isobar::micro {
namespace {

struct Asked {
  std::string config;
  std::vector<std::string> overrides;
  int threads = 1;
  bool json = false;
};

Asked read(int argc, char** argv) {
  Asked a;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json")
      a.json = true;
    else if (word == "--threads" && i + 1 < argc)
      a.threads = std::max(1, std::atoi(argv[++i]));
    else if (word.find('=') != std::string::npos)
      a.overrides.push_back(word);
    else if (a.config.empty() && word[0] != '-')
      a.config = word;
    else
      throw ConfigError("op_rates", word, "is nothing that it takes",
                        "op_rates CONFIG [KEY=VALUE …] [--threads N] [--json]");
  }
  if (a.config.empty())
    throw ConfigError("op_rates", "CONFIG", "is missing", "op_rates configs/models/vit-384.yaml");
  return a;
}

template <class F>
double best_seconds(const F& f) {  // measured over about 50 ms
  using Clock = std::chrono::steady_clock;
  double best = 1e300;
  const auto end = Clock::now() + std::chrono::milliseconds(50);
  for (int i = 0; i < 4 || Clock::now() < end; ++i) {
    const auto begin = Clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

// Always by oneDNN, whatever the step uses
double product_rate(const cpu::Gemm& g) {
  const auto floats = [](int64_t n) { return std::vector<float>(static_cast<size_t>(n)); };  // fits any type
  std::vector<float> a = floats(g.m * g.k), b = floats(g.k * g.n), c = floats(g.m * g.n), bias = floats(g.n);
  fill({}, g.a, g.m * g.k, 0, a.data());
  fill({}, g.b, g.k * g.n, 1, b.data());
  return 2.0 * static_cast<double>(g.m * g.n * g.k) /
         best_seconds([&] { cpu::gemm_by_library(g, a.data(), b.data(), bias.data(), c.data()); });
}

double copy_rate() {  // counts bytes read and written
  constexpr int64_t n = int64_t{1} << 25;
  std::vector<float> x(n, 1.0f), y(n);
  const cpu::Copy c{{1, 1, 1}, {}, {}, n, DType::f32};
  return 2.0 * n * sizeof(float) / best_seconds([&] { cpu::copy(c, x.data(), y.data()); });
}

struct Ceilings {
  double products, copies;                // FLOP/s, B/s
  std::map<std::string, double> of_name;  // FLOP/s of each product by oneDNN alone
};

Ceilings ceilings(const TimedStep& step, DType t) {
  Ceilings c{product_rate({512, 512, 512, false, true, t, t, t, false, false}), copy_rate(), {}};
  for (const plan::Op* op : step.distinct())
    if (op->kind == plan::OpKind::gemm)
      c.of_name[step.name(*op)] = product_rate(cpu::gemm_of(*op, step.plan));
  return c;
}

// Products by transposition, which tells their purpose: NT forward, NN and TN backward
std::string class_of(const plan::Op& op) {
  if (op.kind != plan::OpKind::gemm) return std::string(plan::name_of(op.kind));
  return std::string("gemm ") + (op.as<plan::GemmAttrs>().trans_a ? 'T' : 'N') +
         (op.as<plan::GemmAttrs>().trans_b ? 'T' : 'N');
}

// Sums over a step; `best`: seconds at the ceilings
struct Sum {
  double seconds = 0, flops = 0, bytes = 0, best = 0;
  int calls = 0;
};

nlohmann::json row_of(const std::string& name, const Sum& s) {  // averaged over calls
  return {{"op", name},
          {"calls", s.calls},
          {"seconds", s.seconds / s.calls},
          {"flops", s.flops / s.calls},
          {"bytes", s.bytes / s.calls},
          {"share_of_ceiling", s.best / s.seconds}};
}

double of_step(const nlohmann::json& row) {
  return row["seconds"].get<double>() * row["calls"].get<int>();
}

nlohmann::json by_time(std::vector<nlohmann::json> rows) {
  std::sort(rows.begin(), rows.end(),
            [](const nlohmann::json& a, const nlohmann::json& b) { return of_step(a) > of_step(b); });
  return rows;
}

nlohmann::json rates(const Asked& asked) {
  const RunSpec spec = load_run_spec(asked.config, asked.overrides);
  omp_set_num_threads(asked.threads);
  TimedStep step(spec, asked.threads);
  const Ceilings c = ceilings(step, spec.policy.amp == Amp::bf16 ? DType::bf16 : DType::f32);
  std::map<std::string, int> calls;
  step.run([&](const plan::Op& op, double) { ++calls[step.name(op)]; });
  std::vector<nlohmann::json> rows, classes;
  std::map<std::string, Sum> sums;
  double total = 0;
  for (const plan::Op* op : step.distinct()) {
    const std::string name = step.name(*op);
    double seconds = step.seconds(name, 0);
    for (int r = 1; r < TimedStep::kRepetitions; ++r) seconds = std::min(seconds, step.seconds(name, r));
    const plan::Work w = plan::work(*op, step.plan);
    const auto known = c.of_name.find(name);
    const double best = known != c.of_name.end() ? w.flops / known->second
                        : w.flops > 0            ? w.flops / c.products
                                                 : w.bytes() / c.copies;
    const double n = calls[name];
    const Sum of_all{n * seconds, n * w.flops, n * w.bytes(), n * best, calls[name]};
    rows.push_back(row_of(name, of_all));
    Sum& s = sums[class_of(*op)];
    s = {s.seconds + of_all.seconds, s.flops + of_all.flops, s.bytes + of_all.bytes, s.best + of_all.best,
         s.calls + of_all.calls};
    total += of_all.seconds;
  }
  for (const auto& [name, sum] : sums) classes.push_back(row_of(name, sum));
  const nlohmann::json machine = engine::provenance();
  return {{"config", asked.config},
          {"overrides", asked.overrides},
          {"threads", asked.threads},
          {"cpu", machine["cpu"]},
          {"bf16_mode", machine["bf16_mode"]},
          {"commit", machine["commit"]},
          {"onednn", machine["onednn"]},
          {"product_flops_per_second", c.products},
          {"copy_bytes_per_second", c.copies},
          {"step_seconds", total},
          {"classes", by_time(std::move(classes))},
          {"ops", by_time(std::move(rows))}};
}

void print_rows(const nlohmann::json& rows, double step, const char* what) {
  std::printf("%7s %5s %9s %10s %9s  %s\n", "step %", "calls", "us each", "rate", "ceiling %", what);
  for (const auto& o : rows) {
    const double seconds = o["seconds"].get<double>(), flops = o["flops"].get<double>();
    char text[32];
    std::snprintf(text, sizeof text, "%.0f %s",
                  (flops > 0 ? flops : o["bytes"].get<double>()) / seconds / 1e9,
                  flops > 0 ? "GF/s" : "GB/s");
    std::printf("%7.2f %5d %9.1f %10s %9.0f  %s\n", 100 * of_step(o) / step, o["calls"].get<int>(),
                1e6 * seconds, text, 100 * o["share_of_ceiling"].get<double>(),
                o["op"].get<std::string>().c_str());
  }
}

void print(const nlohmann::json& r) {
  const double step = r["step_seconds"].get<double>();
  std::printf("%s, %d threads: products %.0f GFLOP/s, copies %.1f GB/s, step %.1f ms\n",
              r["cpu"].get<std::string>().c_str(), r["threads"].get<int>(),
              r["product_flops_per_second"].get<double>() / 1e9,
              r["copy_bytes_per_second"].get<double>() / 1e9, step * 1e3);
  print_rows(r["classes"], step, "class");
  std::printf("\n");
  print_rows(r["ops"], step, "op");
}

}  // namespace
}  // namespace isobar::micro

int main(int argc, char** argv) {
  try {
    const isobar::micro::Asked asked = isobar::micro::read(argc, argv);
    const nlohmann::json r = isobar::micro::rates(asked);
    if (asked.json)
      std::cout << r.dump(1) << "\n";
    else
      isobar::micro::print(r);
    return 0;
  } catch (const isobar::ConfigError& e) {
    std::cerr << e.what() << "\n";
    return 2;
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
