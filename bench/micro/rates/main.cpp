// How near each op of a training step comes to what this CPU can do: a table, one line an op, by its share of
// the step.
//
//   build/op_rates configs/models/vit-384.yaml policy.amp=bf16 --threads 2   # keys as `--set` takes them
//   build/op_rates configs/models/vit-384.yaml --json > rates.json           # as bench/results keeps it
//
// Ops are timed within their step (timed_step.h): their operands are where the ops before left them. Work is
// the plan's (work.h). Ceilings, measured on the same threads before: products of 512 x 512 x 512 of the
// step's type for products and attention, a copy of 128 MiB for the rest. An op whose operands lie in a cache
// can be above the latter.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/micro/inputs.h"
#include "bench/micro/timed_step.h"
#include "model/backend/cpu/kernels.h"
#include "model/base/error.h"
#include "model/engine/host.h"
#include "model/plan/op_table.h"
#include "model/plan/work.h"

namespace isobar {
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
double best_seconds(int times, const F& f) {
  double best = 1e300;
  for (int i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

double product_rate(DType t) {
  constexpr int64_t n = 512;
  std::vector<float> a(n * n), b(n * n), c(n * n);  // as many bits as either type needs
  fill({}, t, n * n, 0, a.data());
  fill({}, t, n * n, 1, b.data());
  const cpu::Gemm g{n, n, n, false, true, t, t, t, false, false};
  return 2.0 * n * n * n / best_seconds(30, [&] { cpu::gemm(g, a.data(), b.data(), nullptr, c.data()); });
}

double copy_rate() {  // bytes read and written
  constexpr int64_t n = int64_t{1} << 25;
  std::vector<float> x(n, 1.0f), y(n);
  const cpu::Copy c{{1, 1, 1}, {}, {}, n, DType::f32};
  return 2.0 * n * sizeof(float) / best_seconds(6, [&] { cpu::copy(c, x.data(), y.data()); });
}

bool multiplies(const Work& w) {
  return w.flops > 0;
}

nlohmann::json rates(const Asked& asked) {
  const RunSpec spec = load_run_spec(asked.config, asked.overrides);
  TimedStep step(spec, asked.threads);
  omp_set_num_threads(asked.threads);
  const DType t = spec.policy.amp == "bf16" ? DType::bf16 : DType::f32;
  const double products = product_rate(t), copies = copy_rate();
  std::map<std::string, int> calls;
  step.run([&](const Op& op, double) { ++calls[step.name(op)]; });
  nlohmann::json rows = nlohmann::json::array();
  double total = 0;
  for (const Op* op : step.distinct()) {
    const std::string name = step.name(*op);
    double seconds = step.seconds(name, 0);
    for (int r = 1; r < TimedStep::kRepetitions; ++r) seconds = std::min(seconds, step.seconds(name, r));
    const Work w = work(*op, step.plan);
    const double rate = (multiplies(w) ? w.flops : w.bytes()) / seconds;
    total += seconds * calls[name];
    rows.push_back({{"op", name},
                    {"calls", calls[name]},
                    {"seconds", seconds},
                    {"flops", w.flops},
                    {"bytes", w.bytes()},
                    {"share_of_ceiling", rate / (multiplies(w) ? products : copies)}});
  }
  std::sort(rows.begin(), rows.end(), [](const nlohmann::json& a, const nlohmann::json& b) {
    return a["seconds"].get<double>() * a["calls"].get<int>() >
           b["seconds"].get<double>() * b["calls"].get<int>();
  });
  const nlohmann::json machine = provenance();
  return {{"config", asked.config},
          {"overrides", asked.overrides},
          {"threads", asked.threads},
          {"cpu", machine["cpu"]},
          {"bf16_mode", machine["bf16_mode"]},
          {"commit", machine["commit"]},
          {"onednn", machine["onednn"]},
          {"product_flops_per_second", products},
          {"copy_bytes_per_second", copies},
          {"step_seconds", total},
          {"ops", rows}};
}

void print(const nlohmann::json& r) {
  std::printf("%s, %d threads: products %.0f GFLOP/s, copies %.1f GB/s, step %.1f ms\n",
              r["cpu"].get<std::string>().c_str(), r["threads"].get<int>(),
              r["product_flops_per_second"].get<double>() / 1e9,
              r["copy_bytes_per_second"].get<double>() / 1e9, r["step_seconds"].get<double>() * 1e3);
  std::printf("%7s %5s %9s %10s %9s  %s\n", "step %", "calls", "us", "rate", "ceiling %", "op");
  for (const auto& o : r["ops"]) {
    const double seconds = o["seconds"].get<double>(), flops = o["flops"].get<double>();
    const double rate = (flops > 0 ? flops : o["bytes"].get<double>()) / seconds / 1e9;
    char text[32];
    std::snprintf(text, sizeof text, "%.0f %s", rate, flops > 0 ? "GF/s" : "GB/s");
    std::printf("%7.2f %5d %9.1f %10s %9.0f  %s\n",
                100 * seconds * o["calls"].get<int>() / r["step_seconds"].get<double>(),
                o["calls"].get<int>(), seconds * 1e6, text, 100 * o["share_of_ceiling"].get<double>(),
                o["op"].get<std::string>().c_str());
  }
}

}  // namespace
}  // namespace isobar

int main(int argc, char** argv) {
  try {
    const isobar::Asked asked = isobar::read(argc, argv);
    const nlohmann::json r = isobar::rates(asked);
    if (asked.json)
      std::cout << r.dump(1) << "\n";
    else
      isobar::print(r);
    return 0;
  } catch (const isobar::ConfigError& e) {
    std::cerr << e.what() << "\n";
    return 2;
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
