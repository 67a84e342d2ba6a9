#include "perfmodel/calibrate.h"

#include <gtest/gtest.h>

#include "model/base/error.h"
#include "perfmodel/cost.h"
#include "support.h"

namespace isobar {
namespace {

using nlohmann::json;

json context() {
  return {{"host_name", "bench"},
          {"num_cpus", 2},
          {"cpu", "Some CPU"},
          {"isa", "avx2"},
          {"memory_bytes", "16000000000"},
          {"caches", json::array({{{"level", 3}, {"size", 32000000}}})}};
}

// Benchmarks of the ops of small plans, timed by a hidden machine.
json benchmarks(const Machine& truth, double noise, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, noise);
  json rows = json::array();
  const auto add = [&](const std::string& name, const json& counters, double seconds) {
    for (int repetition = 0; repetition < 3; ++repetition) {
      json row = counters;
      row["name"] = row["run_name"] = name;
      row["run_type"] = "iteration";
      row["time_unit"] = "us";
      row["real_time"] = 1e6 * seconds * std::exp(normal(random));
      rows.push_back(row);
    }
  };
  for (int64_t width : {64, 128, 512})
    for (const char* amp : {"none", "bf16"}) {
      RunSpec s = test::tiny();
      s.layout.dp = 2;
      s.policy.zero = 1;  // sums and copies alone
      s.net.embed_dim = width;
      s.net.depth = 1;
      s.policy.amp = amp;
      const Plan plan = build_plan(s, 0, {});
      for (const Op& op : plan.ops) {
        if (op.kind == OpKind::fetch) continue;
        const Work w = work(op, plan);
        const DType t = plan.buffers[(op.reads.empty() ? op.writes : op.reads)[0].buffer].dtype;
        for (int64_t threads : {1, 2}) {
          const bool wire = is_collective(op.kind);
          const Conditions where{
              .ranks = wire ? 2 : 1, .ranks_on_host = wire ? 2 : 1, .threads = threads, .cores = 2};
          const Counts n = count_op(op, plan, cache_share(truth, where.ranks), where.ranks);
          add(std::string(name_of(op.kind)) + "/" + name_of(t) + "/" + op.path + "/" + std::to_string(width) +
                  "/threads:" + std::to_string(threads),
              {{"flops", w.flops},
               {"vector_flops", w.vector_flops},
               {"bytes", w.bytes()},
               {"wire_bytes", w.wire_bytes},
               {"messages", w.messages},
               {"threads", threads},
               {"ranks", where.ranks}},
              seconds(n, rates(truth.values(), where)));
        }
      }
    }
  for (const auto& [samples, bytes] :
       {std::pair{1.0, 1e6}, {4.0, 4e6}, {1.0, 2e7}}) {  // large and small samples
    Counts n{};
    n[index_of(Coef::read_hdf5)] = bytes;
    n[index_of(Coef::read_sample)] = samples;
    add("read_hdf5/f32/" + std::to_string(bytes), {{"bytes", bytes}, {"samples", samples}},
        seconds(n, truth.values()));
  }
  add("peak/f32", {{"flops", 1e9}, {"threads", 1}}, 1e9 / truth.peaks.at("f32").value);
  add("peak/bf16", {{"flops", 1e9}, {"threads", 1}}, 1e9 / truth.peaks.at("bf16").value);
  add("stream/f32", {{"bytes", 1e9}, {"threads", 2}}, 1e9 / truth.peaks.at("memory").value);
  return {{"context", context()}, {"benchmarks", rows}};
}

TEST(Calibrate, FindsTheMachineThatWasTimed) {
  for (uint64_t seed : {1, 2, 3}) {
    std::mt19937_64 random(seed);
    const Machine truth = test::perturbed(test::machine(), 0.5, random);
    const Machine m = machine_from_benchmarks(benchmarks(truth, 0.02, random));
    for (Coef c : {Coef::gemm_f32, Coef::gemm_bf16, Coef::attention_f32, Coef::attention_backward_bf16,
                   Coef::wire_host, Coef::read_hdf5})
      EXPECT_NEAR(std::log(m[c].value / truth[c].value), 0, 0.15) << info_of(c).name << " seed " << seed;
    EXPECT_NEAR(m.peaks.at("f32").value / truth.peaks.at("f32").value, 1.25, 0.1);
    EXPECT_NEAR(m.peaks.at("memory").value / truth.peaks.at("memory").value, 1, 0.1);
    EXPECT_EQ(m.identity.cores, 2);
    EXPECT_EQ(m.identity.cpu, "Some CPU");
    EXPECT_EQ(m.identity.cache_bytes, 32000000);
    EXPECT_EQ(m[Coef::step].provenance, std::vector<std::string>{"spec"});
    EXPECT_EQ(m[Coef::gemm_bf16].provenance.at(0).substr(0, 9), "gemm/bf16");
    EXPECT_NO_THROW(parse_machine(to_yaml(m), "calibrated.yaml"));
  }
}

TEST(Calibrate, FindsTheNetworkBetweenHosts) {
  const uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, 0.03);
  const Machine truth = test::perturbed(test::machine(), 0.7, random);
  json rows = json::array();
  for (double bytes = 256; bytes < 2e7; bytes *= 8) {
    const double s = 2 * truth[Coef::message_net].value + bytes * truth[Coef::wire_net].value;
    rows.push_back({{"name", "all_reduce/f32/" + std::to_string(bytes) + "/ranks2"},
                    {"time_unit", "ms"},
                    {"real_time", 1e3 * s * std::exp(noise(random))},
                    {"messages", 2},
                    {"wire_bytes", bytes},
                    {"ranks", 2}});
  }
  const Machine before = test::machine(), m = with_network(before, {{"benchmarks", rows}});
  for (size_t i = 0; i < kCoefs; ++i) {
    const auto c = static_cast<Coef>(i);
    if (c != Coef::message_net && c != Coef::wire_net) {
      EXPECT_EQ(m[c].value, before[c].value) << info_of(c).name;
      continue;
    }
    EXPECT_NEAR(std::log(m[c].value / truth[c].value), 0, 0.25) << info_of(c).name << " seed " << seed;
    EXPECT_EQ(m[c].provenance.at(0).substr(0, 10), "all_reduce");
  }
  EXPECT_EQ(with_network(m, {{"benchmarks", rows}})[Coef::wire_net].value, m[Coef::wire_net].value)
      << "what was measured before is no evidence";
  EXPECT_THROW(with_network(before, {{"benchmarks", json::array()}}), ConfigError);
}

TEST(Calibrate, MakesPredictionsBetterThanTheSpecSheet) {
  double spec = 0, calibrated = 0;
  for (uint64_t seed = 10; seed < 15; ++seed) {
    std::mt19937_64 random(seed);
    const Machine truth = test::perturbed(test::machine(), 0.5, random);
    const Machine m = machine_from_benchmarks(benchmarks(truth, 0.02, random));
    for (const RunSpec& s : test::sweep()) {
      const StepTerms t = terms_of(s, truth, 1, s.layout.world());
      const double measured = step_seconds(t, truth.values());
      spec += std::abs(std::log(step_seconds(t, test::machine().values()) / measured));
      calibrated += std::abs(std::log(step_seconds(t, m.values()) / measured));
    }
  }
  EXPECT_LT(calibrated, 0.5 * spec);
}

TEST(Calibrate, RefusesWhatItCannotUse) {
  std::mt19937_64 random(1);
  const json good = benchmarks(test::machine(), 0, random);
  const auto message = [](const json& j) -> std::string {
    try {
      machine_from_benchmarks(j, "bench.json");
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message(good), "accepted");
  json j = good;
  j["benchmarks"][0]["run_name"] = "warp_drive/f32/1";
  EXPECT_NE(message(j).find("warp_drive"), std::string::npos) << message(j);
  j = good;
  j["benchmarks"][0]["run_name"] = "gemm/int8/1";
  EXPECT_NE(message(j).find("int8"), std::string::npos) << message(j);
  j = good;
  j["context"].erase("memory_bytes");
  EXPECT_NE(message(j).find("memory_bytes"), std::string::npos) << message(j);
  j = good;
  j["benchmarks"] = json::array();
  EXPECT_NE(message(j).find("no finished benchmark"), std::string::npos) << message(j);
  j = good;
  j["benchmarks"][0]["real_time"] = 0;
  EXPECT_NE(message(j).find("real_time"), std::string::npos) << message(j);
}

}  // namespace
}  // namespace isobar
