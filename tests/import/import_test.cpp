// Imports against files made with known content.
#include "bench/import/import.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "perfmodel/score/counts/collective_model.h"
#include "perfmodel/score/published/published_run.h"
#include "tests/paths.h"

namespace isobar::foreign {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Import : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "isobar-import-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    dir = name;
  }
  void TearDown() override { fs::remove_all(dir); }
  std::string file(const std::string& name, const std::string& text) const {
    write_atomically(dir / name, text);
    return (dir / name).string();
  }
  fs::path dir;
};

// The output of nccl-tests 2.13 for rings of this latency and bandwidth.
std::string nccl_log(int ranks, int hosts, double latency, double bandwidth, std::mt19937_64& rng) {
  std::string s =
      "# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20\n#\n";
  s += "# Using devices\n";
  for (int r = 0; r < ranks; ++r)
    s += "#  Rank " + std::to_string(r) + " Group  0 Pid " + std::to_string(1000 + r) + " on host" +
         std::to_string(r * hosts / ranks) + " device  " + std::to_string(r % 8) +
         " [0x07] NVIDIA A100-SXM4-80GB\n";
  s += "#\n#                                                              out-of-place                       "
       "in-place\n"
       "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   "
       "algbw   busbw "
       "#wrong\n#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            "
       "(us)  (GB/s)  "
       "(GB/s)\n";
  std::normal_distribution<double> noise(0, 0.02);
  for (double bytes = 1024; bytes < 1e9; bytes *= 4) {
    const double passes = 2, share = passes * (ranks - 1) / ranks * bytes;
    const double messages = passes * (hosts > 1 ? hosts - 1 : ranks - 1);
    const double t = (latency * messages + share / (hosts > 1 ? double(ranks) / hosts : 1) / bandwidth) *
                     std::exp(noise(rng));
    char line[240];
    std::snprintf(
        line, sizeof line,
        "%12.0f  %12.0f     float     sum      -1  %8.2f  %6.2f  %6.2f      0  %8.2f  %6.2f  %6.2f      0\n",
        bytes, bytes / 4, t * 1e6, bytes / t * 1e-9, bytes / t * 1e-9 * 2 * (ranks - 1) / ranks, t * 1e6,
        bytes / t * 1e-9, 1.0);
    s += line;
  }
  return s + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 12.3\n#\n";
}

perf::Machine machine() {
  return perf::machine_from_spec("m",
                                 {.host = "h",
                                  .cpu = "c",
                                  .isa = "avx2",
                                  .cores = 8,
                                  .memory_bytes = 8'000'000'000,
                                  .cache_bytes = 16'000'000},
                                 {{"f32", {5e10, {}}}, {"bf16", {5e10, {}}}, {"memory", {2e10, {}}}});
}

TEST_F(Import, LinksOfAnNcclLogAreThoseThatMadeIt) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 rng(seed);
  for (const int hosts : {1, 4}) {
    const std::string log = file("all_reduce_perf.log", nccl_log(8, hosts, 7e-6, 2e10, rng));
    EXPECT_TRUE(is_nccl_tests(read_file(log)));
    const Collectives c = read_nccl_tests(log, "");
    ASSERT_EQ(c.rows.size(), 10u);
    EXPECT_EQ(c.rows[0].collective, "all_reduce");
    EXPECT_EQ(c.rows[0].ranks, 8);
    EXPECT_EQ(c.rows[0].hosts, hosts);
    EXPECT_EQ(c.device, "NVIDIA A100-SXM4-80GB");
    perf::Machine before = machine();
    before[perf::Coef::message_host] = perf::Coefficient::make(1e-12, 0.1, {});  // none of these made the log
    const perf::Machine m = with_links(before, c);
    const perf::Coef message = hosts > 1 ? perf::Coef::message_net : perf::Coef::message_host;
    const perf::Coef wire = hosts > 1 ? perf::Coef::wire_net : perf::Coef::wire_host;
    EXPECT_NEAR(m[message].value, 7e-6, 0.5e-6);
    EXPECT_NEAR(m[wire].value, 1 / 2e10, 0.05 / 2e10);
    EXPECT_LT(m[wire].lower, m[wire].value);
    // The table has the log's values.
    const perf::CollectiveTable t = perf::collectives_from(read_csv(file("links.csv", to_csv(c))));
    ASSERT_EQ(t.runs.size(), 10u);
    EXPECT_EQ(t.runs[3].bytes, c.rows[3].bytes);
    EXPECT_NEAR(t.runs[3].seconds, c.rows[3].seconds, 1e-9);
    EXPECT_EQ(t.runs[3].nodes, hosts);
  }
}

TEST_F(Import, BrokenNcclLogsAreRefusedByName) {
  std::mt19937_64 rng(1);
  const std::string good = nccl_log(4, 1, 1e-6, 1e10, rng);
  EXPECT_THROW(read_nccl_tests(file("x.log", good), ""), ConfigError);  // of what collective?
  EXPECT_EQ(read_nccl_tests(file("x.log", good), "all_reduce").rows[0].collective, "all_reduce");
  EXPECT_THROW(read_nccl_tests(file("x.log", good), "all_gather"), ConfigError);  // busbw contradicts it
  EXPECT_THROW(read_nccl_tests(file("all_reduce.log", "# nThread algbw busbw\n 1024 256 float\n"), ""),
               ConfigError);
  for (int i = 0; i < 60; ++i) {  // truncated or changed anywhere: a result or an error
    std::string bad = good.substr(0, rng() % good.size());
    if (!bad.empty()) bad[rng() % bad.size()] = static_cast<char>(rng() % 128);
    try {
      read_nccl_tests(file("all_reduce.log", bad), "");
    } catch (const ConfigError&) {
    }
  }
}

TEST_F(Import, PublishedRunsBecomeRunsWithTheSameNumbers) {
  const std::string csv = source_dir() + "/configs/published/zero_bubble_pp.csv";
  const perf::PublishedTable table = perf::read_published(csv);
  const Imported i = import_published(csv, dir / "results");
  size_t refused = 0;
  for (const auto& [reason, n] : i.refused) {
    refused += n;
    EXPECT_TRUE(i.first.contains(reason)) << reason << " does not say where";
  }
  EXPECT_GT(i.runs, 20u);
  EXPECT_GE(i.runs + refused, table.runs.size());
  std::vector<std::string> problems;
  const std::vector<records::RunRecord> runs = records::load_runs(dir / "results", &problems);
  EXPECT_TRUE(problems.empty()) << problems[0];
  ASSERT_EQ(runs.size(), i.runs);
  std::map<std::string, const perf::PublishedRun*> by_id;
  for (const perf::PublishedRun& p : table.runs) by_id[p.id] = &p;
  for (const records::RunRecord& r : runs) {
    ASSERT_EQ(r.run_class, records::RunClass::ok);
    const perf::PublishedRun& p = *by_id.at(r.provenance["row"]);
    EXPECT_DOUBLE_EQ(r.step_s.median, p.step_s);
    EXPECT_EQ(r.spec.layout.tp, p.tp);
    EXPECT_EQ(r.spec.layout.pp, p.pp);
    EXPECT_EQ(r.spec.net.blocks(), p.layers);
    EXPECT_EQ(r.ranks, p.gpus);
  }
  EXPECT_EQ(import_published(csv, dir / "results").runs, i.runs);  // twice changes nothing
  EXPECT_EQ(records::load_runs(dir / "results").size(), i.runs);

  // A damaged result is replaced.
  write_atomically(dir / "results/trials" / runs[0].id / "result.jsonl", "not JSON");
  EXPECT_EQ(import_published(csv, dir / "results").runs, i.runs);
  EXPECT_EQ(records::load_runs(dir / "results").size(), i.runs);

  // The same specifications from another source are kept as repetitions.
  std::string other = read_file(csv);
  for (size_t at = 0; (at = other.find("\nzero-bubble,", at)) != std::string::npos; at += 2)
    other.replace(at + 1, 11, "others");
  EXPECT_EQ(import_published(file("other.csv", other), dir / "results").runs, i.runs);
  std::map<std::string, size_t> sources;
  for (const records::RunRecord& r : records::load_runs(dir / "results")) ++sources[r.provenance["source"]];
  EXPECT_EQ(sources, (std::map<std::string, size_t>{{"zero-bubble", i.runs}, {"others", i.runs}}));
}

json event(const char* category, const std::string& name, double begin, double duration, int tid) {
  return {{"ph", "X"},  {"cat", category}, {"name", name},   {"pid", 1},
          {"tid", tid}, {"ts", begin},     {"dur", duration}};
}

TEST_F(Import, KinetoTracesGiveStepsAndOps) {
  const std::string config =
      file("run.yaml", "net: {embed_dim: 64, depth: 2, num_heads: 4}\ntrain: {global_batch: 16}\n");
  json device = {{"traceEvents", json::array()}}, cpu = device;
  for (int step = 0; step < 5; ++step) {
    const double at = 1e6 + 2e5 * step, length = 1e5 + 1e4 * step;
    for (json* j : {&device, &cpu})
      (*j)["traceEvents"].push_back(
          event("user_annotation", "ProfilerStep#" + std::to_string(step), at, length, 1));
    device["traceEvents"].push_back(
        event("gpu_user_annotation", "ProfilerStep#" + std::to_string(step), at, 9 * length, 7));
    device["traceEvents"].push_back(event("kernel", "ampere_bf16_s16816gemm_bf16_128x128", at + 10, 4e4, 7));
    device["traceEvents"].push_back(
        event("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", at + 5e4, 1e4, 20));
    device["traceEvents"].push_back(
        event("cpu_op", "aten::mm", at, 100, 1));  // launched the kernel: not counted
    cpu["traceEvents"].push_back(event("cpu_op", "aten::linear", at + 10, 5e4, 1));
    cpu["traceEvents"].push_back(
        event("cpu_op", "aten::addmm", at + 20, 4e4, 1));  // inside of it: not counted
    cpu["traceEvents"].push_back(event("cpu_op", "aten::layer_norm", at + 6e4, 1e4, 1));
  }
  import_kineto({file("a.json", device.dump())}, config, dir / "device");
  import_kineto({file("b.json", cpu.dump())}, config, dir / "cpu");
  const records::RunRecord a = records::load_runs(dir / "device").at(0),
                           b = records::load_runs(dir / "cpu").at(0);
  for (const records::RunRecord* r : {&a, &b}) {
    EXPECT_EQ(r->run_class, records::RunClass::ok);
    EXPECT_NEAR(r->step_s.median, 0.12, 1e-9);
    EXPECT_NEAR(r->rate(kStatistic), 16 / 0.12, 1e-6);
    EXPECT_EQ(r->steps.size(), 5u);
    EXPECT_EQ(r->spec.net.width(), 64);
    ASSERT_EQ(r->ops.size(), 2u);
  }
  std::map<std::string, const records::OpRecord*> ops;
  for (const records::RunRecord* r : {&a, &b})
    for (const records::OpRecord& o : r->ops) ops[o.kind + (r == &a ? " device" : " cpu")] = &o;
  EXPECT_NEAR(ops.at("gemm device")->seconds, 5 * 0.04, 1e-9);
  EXPECT_EQ(ops.at("gemm device")->count, 5);
  EXPECT_EQ(ops.at("all_reduce device")->lane, "dp");
  EXPECT_NEAR(ops.at("gemm cpu")->seconds, 5 * 0.05, 1e-9);
  EXPECT_NEAR(ops.at("norm cpu")->seconds, 5 * 0.01, 1e-9);
  // Two ranks: the slower step of each counts.
  json slow = device;
  for (json& e : slow["traceEvents"])
    if (e["name"] == "ProfilerStep#2") e["dur"] = 1.5e5;
  import_kineto({file("a.json", device.dump()), file("c.json", slow.dump())}, config, dir / "both");
  EXPECT_NEAR(records::load_runs(dir / "both").at(0).steps[2].seconds, 0.15, 1e-9);
  EXPECT_THROW(import_kineto({file("d.json", "{\"traceEvents\": []}")}, config, dir / "none"), ConfigError);
  EXPECT_THROW(import_kineto({file("e.json", "{\"traceEvents\": 7")}, config, dir / "none"), ConfigError);
}

}  // namespace
}  // namespace isobar::foreign
