#include "perfmodel/fitting/calibrate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/base/error.h"
#include "model/base/text/json.h"
#include "model/base/text/printed.h"
#include "model/plan/ops/op_table.h"
#include "perfmodel/fitting/fit.h"
#include "perfmodel/fitting/least_squares.h"
#include "perfmodel/fitting/statistics.h"
#include "perfmodel/machine/device.h"
#include "perfmodel/step/checkpoint.h"
#include "perfmodel/step/cost.h"
#include "perfmodel/step/op_terms.h"
#include "perfmodel/step/shapes.h"

namespace isobar::perf {
namespace {

using nlohmann::json;

// One benchmark. The fastest repetition counts, since disturbances only add time; for checkpoints the median,
// since caching can make a disk look fast.
struct Case {
  std::string name, kind;
  DType dtype = DType::f32;
  bool tf32 = false;
  double seconds = 0;
  double ops = 1, samples = 0;
  double charged = 0;  // FLOPs
  plan::Work work;
  int64_t threads = 1, ranks = 1;
  bool own_shape = false;
  int64_t head_size = 0;  // attention
  bool causal = false;
  double compute_s = 0;  // lockstep: without waits
};

double number(const json& j, const char* key, double otherwise) {
  const auto it = j.find(key);
  if (it == j.end()) return otherwise;
  if (it->is_number()) return it->get<double>();
  if (it->is_string()) {  // custom context is text
    try {
      return std::stod(it->get<std::string>());
    } catch (const std::exception&) {
      return otherwise;
    }
  }
  return otherwise;
}

double unit_of(const json& b, const std::string& file, const std::string& name) {
  const std::string unit = b.value("time_unit", "ns");
  if (unit == "ns") return 1e-9;
  if (unit == "us") return 1e-6;
  if (unit == "ms") return 1e-3;
  if (unit == "s") return 1;
  throw ConfigError(file, name, "has the unknown time_unit '" + unit + "'", "use ns, us, ms or s");
}

Case read_case(const json& b, const std::string& file, const std::string& name) {
  Case c;
  c.name = name;
  const size_t slash = name.find('/');
  if (slash == std::string::npos)
    throw ConfigError(file, name, "does not begin with KIND/DTYPE", "name it e.g. gemm/f32/4050x384x384");
  c.kind = name.substr(0, slash);
  const std::string dtype = name.substr(slash + 1, name.find('/', slash + 1) - slash - 1);
  if (dtype != "f32" && dtype != "bf16" && dtype != "tf32")
    throw ConfigError(file, name, "has the unknown dtype '" + dtype + "'", "use f32, tf32 or bf16");
  c.dtype = dtype == "bf16" ? DType::bf16 : DType::f32;
  c.tf32 = dtype == "tf32";
  c.ops = number(b, "ops", 1);
  c.samples = number(b, "samples", 0);
  c.work.flops = number(b, "flops", 0);
  c.charged = number(b, "charged_flops", c.work.flops);
  c.work.vector_flops = number(b, "vector_flops", 0);
  c.work.bytes_read = number(b, "bytes", 0);
  c.work.wire_bytes = number(b, "wire_bytes", 0);
  c.work.messages = number(b, "messages", 0);
  if (b.contains("charged_flops") && (c.kind == "attention" || c.kind == "attention_backward"))
    keep_flops_alone(c.work);
  c.threads = std::llround(number(b, "threads", 1));
  c.ranks = std::llround(number(b, "ranks", 1));
  c.own_shape = number(b, "own_shape", 0) > 0;
  c.head_size = std::llround(number(b, "head_size", 0));
  c.causal = number(b, "causal", 0) > 0;
  c.compute_s = number(b, "compute_s", 0);
  if (c.threads < 1 || c.ranks < 1 || !(c.ops >= 1))
    throw ConfigError(file, name, "has threads, ranks or ops below 1", "correct the counters");
  return c;
}

std::vector<Case> read_cases(const json& j, const std::string& file) {
  if (!j.is_object() || !j.contains("benchmarks") || !j["benchmarks"].is_array())
    throw ConfigError(file, "benchmarks", "is missing", "write it with --benchmark_format=json");
  std::vector<Case> cases;
  std::vector<std::vector<double>> times;
  for (const json& b : j["benchmarks"]) {
    if (b.value("run_type", "iteration") != "iteration" || b.value("error_occurred", false)) continue;
    const std::string name = b.value("run_name", b.value("name", ""));
    const double s = number(b, "real_time", 0) * unit_of(b, file, name);
    if (!(s > 0)) throw ConfigError(file, name, "has no real_time", "run the benchmark again");
    auto at = std::find_if(cases.begin(), cases.end(), [&](const Case& c) { return c.name == name; });
    if (at == cases.end()) {
      cases.push_back(read_case(b, file, name));
      times.emplace_back();
      at = std::prev(cases.end());
    }
    times[at - cases.begin()].push_back(s);
  }
  if (cases.empty())
    throw ConfigError(file, "benchmarks", "holds no finished benchmark", "run isobar calibrate");
  for (size_t i = 0; i < cases.size(); ++i)
    cases[i].seconds = quantile(times[i], cases[i].kind == "checkpoint" ? 0.5 : 0);
  return cases;
}

Identity identity_of(const json& j, const std::string& file) {
  const json c = j.value("context", json::object());
  Identity id;
  id.host = text_in(c, "host_name");
  id.cpu = text_in(c, "cpu");
  id.isa = text_in(c, "isa");
  id.cores = std::llround(number(c, "cores", number(c, "num_cpus", 0)));
  id.memory_bytes = std::llround(number(c, "memory_bytes", 0));
  double cache = 0;
  if (c.contains("caches") && c["caches"].is_array())
    for (const json& level : c["caches"]) cache = std::max(cache, number(level, "size", 0));
  id.cache_bytes = std::llround(number(c, "cache_bytes", cache));
  for (auto [value, key] :
       {std::pair{id.cores, "cores"}, {id.memory_bytes, "memory_bytes"}, {id.cache_bytes, "cache_bytes"}})
    if (value < 1)
      throw ConfigError(file, std::string("context.") + key, "is missing",
                        std::string("add it with benchmark::AddCustomContext(\"") + key + "\", ...)");
  return id;
}

// The accelerator in the context. One accelerator's cases measure no network: its tiers are placeholders with
// provenance, to be replaced by hand or by measured collectives.
// "clock settled under load: 1350 to 1905 MHz, 310 to 690 W"; empty if no benchmark tells its clock.
std::string clocks_of(const json& j) {
  struct Span {
    double least = std::numeric_limits<double>::infinity(), most = 0;
    void add(double v) { least = std::min(least, v), most = std::max(most, v); }
    std::string text(const char* unit) const {
      return least < most ? printed("%.0f to %.0f %s", least, most, unit) : printed("%.0f %s", least, unit);
    }
  };
  Span mhz, watts;
  int64_t told = 0, restless = 0;
  for (const json& b : j["benchmarks"]) {
    if (b.value("run_type", "iteration") != "iteration" || !(number(b, "clock_mhz", 0) > 0)) continue;
    ++told;
    if (number(b, "settled", 0) == 0) ++restless;
    mhz.add(number(b, "clock_mhz", 0));
    if (const double w = number(b, "watts", 0); w > 0) watts.add(w);
  }
  if (told == 0) return "";
  std::string text = "clock settled under load: " + mhz.text("MHz");
  if (watts.most > 0) text += ", " + watts.text("W");
  if (restless > 0)
    text += printed("; in %lld of %lld timings it did not settle", static_cast<long long>(restless),
                    static_cast<long long>(told));
  return text;
}

std::optional<Accelerator> accelerator_of(const json& j, const std::string& file) {
  const json c = j.value("context", json::object());
  Accelerator a;
  a.name = text_in(c, "accelerator");
  if (a.name.empty()) return std::nullopt;
  a.vendor = "nvidia";  // the device benchmarks use CUDA
  a.memory_bytes = std::llround(number(c, "accelerator_memory_bytes", 0));
  a.processors = std::llround(number(c, "processors", 0));
  for (auto [value, key] :
       {std::pair{a.memory_bytes, "accelerator_memory_bytes"}, {a.processors, "processors"}})
    if (value < 1)
      throw ConfigError(file, std::string("context.") + key, "is missing",
                        std::string("add it with benchmark::AddCustomContext(\"") + key + "\", ...)");
  const std::vector<std::string> assumed{"assumed: nothing was measured between accelerators"};
  a.host = {.name = "host",
            .ranks = std::max<int64_t>(1, std::llround(number(c, "accelerators", 1))),
            .bandwidth = 5e10,  // PCIe 5
            .latency = 1e-5,
            .provenance = assumed};
  a.net = {.name = "net", .bandwidth = 2.5e10, .latency = 2e-5, .provenance = assumed};
  a.provenance = {"isobar calibrate on " + text_in(c, "host_name")};
  if (std::string clocks = clocks_of(j); !clocks.empty()) a.provenance.push_back(std::move(clocks));
  return a;
}

// Attention in fp32 may be three products in TF32 (Machine::floor_of), which are no rate of fp32.
bool in_other_products(const Case& c) {
  return c.dtype == DType::f32 && !c.tf32 && c.kind.starts_with("attention");
}

// Best rate of one core in any case. Even a peak benchmark may be disturbed, and products are an unknown
// distance below the peak.
Peak best_flops(const std::vector<Case>& cases, DType dtype, bool tf32 = false) {
  constexpr double kRoomAbovePeak = 1.25, kRoomAboveProducts = 1.4;
  Peak best;
  bool peak = false;
  for (const Case& c : cases) {
    if (c.dtype != dtype || c.tf32 != tf32 || c.work.flops <= 0 || in_other_products(c)) continue;
    peak |= c.kind == "peak";
    const double rate = c.work.flops / c.seconds / static_cast<double>(c.threads);
    if (rate > best.value) best = {rate, {c.name}};
  }
  best.value *= peak ? kRoomAbovePeak : kRoomAboveProducts;
  return best;
}

Peak best_bytes(const std::vector<Case>& cases) {
  Peak stream, any;
  for (const Case& c : cases) {
    const double rate = c.work.bytes() * static_cast<double>(c.ranks) / c.seconds;
    if (c.kind == "stream" && rate > stream.value) stream = {rate, {c.name}};
    if (plan::op_named(c.kind) && rate > any.value) any = {rate, {c.name}};
  }
  return stream.value > 0 ? stream : any;
}

// Modelled counts of a case: op counts for ops, loader counts for read_*; none for peaks.
std::optional<Counts> counts_of(const Case& c, double cache, const std::string& file) {
  if (const auto kind = plan::op_named(c.kind)) {
    plan::Work one = c.work;  // spilling depends on the size of one op
    one.flops = c.charged;
    for (double* v : {&one.flops, &one.vector_flops, &one.bytes_read, &one.wire_bytes, &one.messages})
      *v /= c.ops;
    Counts n = count_op(*kind, c.dtype, one, cache, c.threads);
    for (double& v : n) v *= c.ops;
    constexpr std::pair<Coef, Coef> kOnTensorCores[] = {
        {Coef::gemm_f32, Coef::gemm_tf32},
        {Coef::attention_f32, Coef::attention_tf32},
        {Coef::attention_backward_f32, Coef::attention_backward_tf32}};
    if (c.tf32)
      for (const auto& [f32, tf32] : kOnTensorCores) n[index_of(tf32)] = std::exchange(n[index_of(f32)], 0);
    return n;
  }
  if (c.kind == "peak" || c.kind == "stream") return std::nullopt;
  Counts n{};
  if (c.kind == "step" || c.kind == "launch") {
    n[index_of(c.kind == "step" ? Coef::op : Coef::host_op)] = c.ops;
    if (c.kind == "step") n[index_of(Coef::step)] = 1;
    return n;
  }
  if (c.kind == "copy_host") {
    n[index_of(Coef::copy_host)] = c.work.bytes();
    return n;
  }
  if (c.kind == "checkpoint") {
    n[index_of(Coef::commit)] = c.ops;
    n[index_of(Coef::checkpoint)] = c.work.bytes();
    return n;
  }
  if (c.kind.starts_with("read_")) {
    if (const auto source = coef_named("read." + c.kind.substr(5));
        source && *source != Coef::read_sample && *source != Coef::read_row) {
      n[index_of(*source)] = c.work.bytes();
      if (*source == Coef::read_decode) n[index_of(Coef::read_zarr)] = c.work.bytes();
      n[index_of(*source == Coef::read_table ? Coef::read_row : Coef::read_sample)] = c.samples;
      return n;
    }
  }
  throw ConfigError(file, c.name, "is of the unknown kind '" + c.kind + "'",
                    "use the name of an op, read_noise, read_hdf5, read_netcdf, read_zarr, read_decode, "
                    "read_table, checkpoint, copy_host, step, launch, peak or stream");
}

// Waits of ranks that synchronise between ops, for each other and for transfers. They vary between runs far
// more than op times.
Observation waits_of(const Case& c, const std::string& file) {
  constexpr double kScatter = 0.4;  // log sigma
  if (c.ranks < 2 || !(c.compute_s > 0) || !(c.work.messages > 0))
    throw ConfigError(file, c.name, "has counters that say that nobody waits",
                      "set ranks, compute_s, messages and wire_bytes");
  Counts n{};
  n[index_of(Coef::message_host)] = c.work.messages;
  n[index_of(Coef::wire_host)] = c.work.wire_bytes;
  const double share = c.compute_s * std::log2(static_cast<double>(c.ranks));
  const Conditions where{.ranks = c.ranks, .ranks_on_host = c.ranks, .cores = c.ranks};
  return {[n, share, where](const Counts& k) {
            return k[index_of(Coef::lockstep)] * share + seconds(n, rates(k, where));
          },
          c.seconds, kScatter};
}

// Sets a machine's coefficient from the solution. Its source is the benchmarks that are most sensitive to it;
// without any, it has moved with its family only.
void take(Machine& m, size_t coef, const Solution& s, const std::vector<std::string>& names) {
  const auto d = static_cast<Eigen::Index>(coef);
  std::vector<std::pair<double, std::string>> felt;
  for (size_t b = 0; b < names.size(); ++b)
    if (const double share = std::abs(s.jacobian(static_cast<Eigen::Index>(b), d)); share > 0.01)
      felt.emplace_back(-share, names[b]);
  std::sort(felt.begin(), felt.end());
  constexpr size_t kNamed = 4;
  std::vector<std::string> from;
  for (size_t f = 0; f < std::min(felt.size(), kNamed); ++f) from.push_back(felt[f].second);
  if (from.empty()) from = m.coefficients[coef].provenance;
  m.coefficients[coef] = Coefficient::make(s.coefficients[coef], std::sqrt(s.covariance(d, d)), from);
}

// Measured over modelled time of a given run's ops, and of attention by head size
std::shared_ptr<const ShapeFactors> shapes_of(const std::vector<Case>& cases, const Machine& m,
                                              const std::string& file) {
  ShapeFactors out;
  std::map<std::string, std::pair<double, double>> of_heads;  // sum of log factors, count
  for (const Case& c : cases) {
    if (c.ranks > 1 || (!c.own_shape && c.head_size == 0)) continue;
    Conditions where{.threads = c.threads, .cores = m.identity.cores};
    if (m.accelerator) where = conditions_of(*m.accelerator, 1);
    const double factor =
        c.seconds / seconds(*counts_of(c, cache_share(m, 1), file), rates(m.values(), where));
    if (c.own_shape) {
      const std::string end = "/threads" + std::to_string(c.threads);  // Google Benchmark appends how it ran
      out[c.name.substr(0, c.name.find(end) + end.size())] = factor;
    }
    if (c.head_size > 0) {
      auto& [sum, count] = of_heads[head_name(c.kind, name_of(c.dtype), c.head_size, c.causal)];
      sum += std::log(factor), count += 1;
    }
  }
  for (const auto& [name, sum] : of_heads) out[name] = std::exp(sum.first / sum.second);
  return out.empty() ? nullptr : std::make_shared<const ShapeFactors>(std::move(out));
}

}  // namespace

double charged_flops(const plan::Op& op, const plan::Plan& plan, int64_t processors) {
  const Conditions where{.processors = processors};
  Counts counts{};
  op_seconds(shape_of(op, plan, where), Counts{}, where, 1, &counts);
  double flops = 0;
  for (const Coef c : {Coef::gemm_f32, Coef::gemm_tf32, Coef::gemm_bf16, Coef::gemm_fp8, Coef::attention_f32,
                       Coef::attention_tf32, Coef::attention_bf16, Coef::attention_backward_f32,
                       Coef::attention_backward_tf32, Coef::attention_backward_bf16})
    flops += counts[index_of(c)];
  return flops;
}

Machine machine_from_benchmarks(const json& gbench, const std::string& file) {
  Identity id = identity_of(gbench, file);
  const std::optional<Accelerator> accelerator = accelerator_of(gbench, file);
  if (accelerator)
    id.cache_bytes = std::max(1LL, std::llround(number(gbench["context"], "accelerator_cache_bytes", 1)));
  const std::vector<Case> cases = read_cases(gbench, file);
  std::map<std::string, Peak> peaks{{"f32", best_flops(cases, DType::f32)},
                                    {"bf16", best_flops(cases, DType::bf16)},
                                    {"memory", best_bytes(cases)}};
  if (peaks["f32"].value <= 0)
    throw ConfigError(file, "gemm/f32", "there is no benchmark of f32 products", "add one");
  if (peaks["memory"].value <= 0)
    throw ConfigError(file, "stream/f32", "there is no benchmark of memory traffic", "add one");
  if (peaks["bf16"].value <= 0) peaks["bf16"] = {peaks["f32"].value, {"assumed: that of f32"}};
  if (const Peak tf32 = best_flops(cases, DType::f32, true); tf32.value > 0) peaks["tf32"] = tf32;
  Machine m = machine_from_spec(accelerator ? accelerator->name : id.host, id, peaks, accelerator);

  // Log sigma of a benchmark against its model: its own, and a part common to all cases of a kind, which does
  // not average out. The common part is equal for any number of threads.
  constexpr double kScatter = 0.08, kCommon = 0.05;
  std::map<std::string, int> kinds;  // kind -> its effect's index
  std::vector<Observation> observations;
  std::vector<std::string> names;
  for (const Case& c : cases) {
    if (c.kind == "lockstep") {
      observations.push_back(waits_of(c, file));
      names.push_back(c.name);
      continue;
    }
    const double cache = cache_share(m, c.ranks);
    const auto n = counts_of(c, cache, file);
    if (!n) continue;
    Conditions where{.ranks = c.ranks, .ranks_on_host = c.ranks, .threads = c.threads, .cores = id.cores};
    if (accelerator) where = conditions_of(*accelerator, c.ranks);
    const double scatter = c.kind == "checkpoint" ? kCheckpointScatter : kScatter;
    Observation o{[n = *n, where](const Counts& k) { return seconds(n, rates(k, where)); }, c.seconds,
                  scatter};
    o.effects = {
        kinds.try_emplace(c.kind + (c.tf32 ? "tf32" : name_of(c.dtype)), kinds.size()).first->second};
    if (!(o.model(m.values()) > 0))
      throw ConfigError(file, c.name, "has counters that say it does nothing",
                        "set flops, bytes or wire_bytes and messages");
    observations.push_back(std::move(o));
    names.push_back(c.name);
  }
  const Solution s =
      solve(observations, prior_of(m, 0), m.values(), std::vector<double>(kinds.size(), kCommon));
  for (size_t i = 0; i < kCoefs; ++i) take(m, i, s, names);
  m.shapes = shapes_of(cases, m, file);
  if (gbench["context"].contains("timed")) m.timed = gbench["context"]["timed"].get<Ranges>();
  return m;
}

Machine with_network(Machine m, const json& gbench, const std::string& file) {
  constexpr double kScatter =
      0.2;  // log sigma of one case: other traffic, and algorithms that change with the size
  std::vector<Observation> observations;
  std::vector<std::string> names;
  for (const Case& c : read_cases(gbench, file)) {
    if (c.kind != "all_reduce") continue;
    Counts n{};  // a ring over all ranks enters and leaves each host once
    n[index_of(Coef::message_net)] = c.work.messages;
    n[index_of(Coef::wire_net)] = c.work.wire_bytes;
    if (!(c.work.messages > 0 && c.work.wire_bytes > 0))
      throw ConfigError(file, c.name, "has counters that say it sends nothing",
                        "set wire_bytes and messages");
    observations.push_back({[n](const Counts& k) { return seconds(n, k); }, c.seconds, kScatter});
    names.push_back(c.name);
  }
  if (observations.empty())
    throw ConfigError(file, "all_reduce", "there is no benchmark of the network", "run isobar calibrate");
  const Machine unknown = machine_from_spec(m.name, m.identity, m.peaks);  // an earlier network cost must not
                                                                           // influence the new one
  for (const Coef c : {Coef::message_net, Coef::wire_net}) m[c] = unknown[c];
  const Solution s = solve(observations, prior_of(m, 0), m.values());
  for (const Coef c : {Coef::message_net, Coef::wire_net}) take(m, index_of(c), s, names);
  return m;
}

}  // namespace isobar::perf
