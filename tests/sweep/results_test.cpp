// Reading results, and the SQLite index.
#include "model/records/results.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <cmath>

#include "bench/sweep/results/store.h"
#include "model/base/error.h"
#include "support.h"

namespace isobar::sweep {
namespace {

class ResultsTest : public SweepTest {
 protected:
  static int64_t count(const Store& store, const std::string& sql) {
    SQLite::Database db(store.file().string(), SQLite::OPEN_READONLY);
    return db.execAndGet(sql).getInt64();
  }
};

TEST_F(ResultsTest, EveryFieldOfTheContractArrives) {
  run(sweep("axes: {gpus: [2], amp: [bf16]}\nrepetitions: 2"));
  const auto runs = records::load_runs(scratch_ / "results");
  ASSERT_EQ(runs.size(), 2u);
  const records::RunRecord& r = runs[0];
  EXPECT_EQ(r.run_class, records::RunClass::ok);
  EXPECT_TRUE(r.complete);
  EXPECT_EQ(r.attempt, 1);
  EXPECT_EQ(r.spec.policy.amp, Amp::bf16);
  EXPECT_EQ(r.spec.layout.dp, 2);
  EXPECT_EQ(r.axes, nlohmann::json({{"ranks", 2}, {"policy.amp", "bf16"}}));
  EXPECT_EQ(r.ranks, 2);
  EXPECT_EQ(r.threads, 1);
  EXPECT_EQ(r.plan_hash, "abc");
  EXPECT_EQ(r.parameters, 1234);
  EXPECT_DOUBLE_EQ(r.flops_forward_per_sample, 5e9);
  EXPECT_DOUBLE_EQ(r.step_s.median, 0.003);
  EXPECT_DOUBLE_EQ(r.step_s.p10, 0.0025);
  EXPECT_DOUBLE_EQ(r.step_s.p90, 0.0035);
  EXPECT_DOUBLE_EQ(r.rate(Statistic::median), 8 / 0.003);  // overrides run_end's statistics
  EXPECT_DOUBLE_EQ(r.data_wait_s, 0.0001);
  EXPECT_DOUBLE_EQ(r.unattributed_share, 0.01);
  EXPECT_DOUBLE_EQ(r.final_loss, 0.25);
  EXPECT_EQ(r.arena_bytes, 4096);
  EXPECT_EQ(r.memory_by_category.at("params"), 1024);
  EXPECT_EQ(r.peak_rss_bytes, 2 << 20);
  EXPECT_EQ(r.provenance["commit"], "c0ffee");
  EXPECT_EQ(r.steps.size(), 4u);
  ASSERT_EQ(r.ops.size(), 1u);
  EXPECT_EQ(r.ops[0].path, "block00/attn/qkv/forward");
  EXPECT_DOUBLE_EQ(r.ops[0].flops, 1e9);
  EXPECT_EQ(r.time_utc, "2024-01-01T00:00:00Z");
  EXPECT_GT(r.wall_s, 0);
  EXPECT_EQ(records::load_runs(r.dir).size(), 1u);                // a single run directory
  EXPECT_EQ(records::load_runs(r.dir.parent_path()).size(), 2u);  // a folder of them
}

TEST_F(ResultsTest, AnotherWarmupIsMeasuredFromTheSteps) {
  const SweepOutcome o = run(sweep("axes: {train.seed: [0]}\nwarmup: 1"));
  EXPECT_DOUBLE_EQ(o.runs[0].step_s.median, 0.003);  // steps 2, 3, 4 take 2, 3, 4 ms
  EXPECT_DOUBLE_EQ(o.runs[0].step_s.p10, 0.0022);
  EXPECT_EQ(o.runs[0].step_s.count, 3);
  EXPECT_DOUBLE_EQ(o.runs[0].rate(Statistic::median), 8 / 0.003);
}

TEST_F(ResultsTest, QuantilesMatchNumpy) {
  const StepStats s = step_stats({5, 1, 4, 2, 3, 10});  // numpy.percentile(…, [50, 10, 90]) = 3.5, 1.5, 7.5
  EXPECT_DOUBLE_EQ(s.median, 3.5);
  EXPECT_DOUBLE_EQ(s.p10, 1.5);
  EXPECT_DOUBLE_EQ(s.p90, 7.5);
  EXPECT_EQ(s.count, 6);
}

TEST_F(ResultsTest, TornLastLineIsIgnoredAndGarbageIsReportedNotFatal) {
  write("runs/a/result.jsonl",
        "{\"event\":\"run_start\",\"ranks\":1,\"spec\":{}}\nnot json\n"
        "{\"event\":\"step\",\"step\":1,\"loss\":null,\"seconds\":\"x\"}\n{\"event\":\"step\",\"st");
  write("runs/a/spec.json", "{\"net\":{\"depth\":3}}");
  write("runs/b/result.jsonl", "{\"event\":\"run_end\",\"status\":\"ok\",\"ops\":7,\"step_s\":[]}\n");
  write("runs/b/spec.json", "{broken");
  write("runs/c/trial.json", "{\"id\":\"c\",\"spec\":{\"nett\":{}}}");
  std::vector<std::string> problems;
  const auto runs = records::load_runs(scratch_ / "runs", &problems);
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].spec.net.vit().depth, 3);
  EXPECT_EQ(runs[0].steps.size(), 1u);
  EXPECT_FALSE(runs[0].steps[0].loss.has_value());
  EXPECT_EQ(runs[0].run_class, records::RunClass::interrupted);
  EXPECT_FALSE(runs[0].complete);
  EXPECT_EQ(runs[1].run_class, records::RunClass::ok);
  std::string all;
  for (const std::string& p : problems) all += p + "\n";
  EXPECT_NE(all.find("a/result.jsonl:2:"), std::string::npos) << all;
  EXPECT_NE(all.find("a/result.jsonl:3: 'seconds': is \"x\""), std::string::npos) << all;
  EXPECT_NE(all.find("b/result.jsonl:1: 'ops': is 7"), std::string::npos) << all;
  EXPECT_NE(all.find("b/spec.json"), std::string::npos) << all;
  EXPECT_NE(all.find("nett"), std::string::npos) << all;
  EXPECT_EQ(all.find("result.jsonl:4"), std::string::npos) << all;
}

TEST_F(ResultsTest, ResumedRunCountsFromItsLastStart) {
  write("run/result.jsonl",
        "{\"event\":\"run_start\",\"ranks\":1}\n{\"event\":\"step\",\"step\":1,\"seconds\":1}\n"
        "{\"event\":\"checkpoint\",\"step\":2,\"seconds\":0.5}\n"
        "{\"event\":\"run_end\",\"status\":\"failed\",\"class\":\"numeric\"}\n"
        "{\"event\":\"run_start\",\"ranks\":2}\n{\"event\":\"step\",\"step\":2,\"seconds\":1}\n"
        "{\"event\":\"checkpoint\",\"step\":2,\"seconds\":1e-5}\n"
        "{\"event\":\"checkpoint\",\"step\":4,\"seconds\":0.25}\n");
  const records::RunRecord r = records::load_run(scratch_ / "run");
  ASSERT_EQ(r.checkpoints.size(), 1u);  // step 2 was already saved
  EXPECT_EQ(r.checkpoints[0].step, 4);
  EXPECT_DOUBLE_EQ(r.checkpoints[0].seconds, 0.25);
  EXPECT_EQ(r.ranks, 2);
  EXPECT_EQ(r.steps.size(), 1u);
  EXPECT_EQ(r.run_class, records::RunClass::interrupted);
  EXPECT_EQ(r.id, "run");
}

TEST_F(ResultsTest, MissingDirectoryIsOneClearError) {
  EXPECT_THROW(records::load_runs(scratch_ / "nowhere"), ConfigError);
}

TEST_F(ResultsTest, IndexHoldsTheSweepAndIsRebuiltFromTheFiles) {
  run(sweep("axes: {gpus: [1, 2], workers: [0, 3], train.seed: [0, " + seed(Fault::segv) + "]}"));
  const Store store(scratch_ / "results");
  const auto check = [&] {
    EXPECT_EQ(count(store, "SELECT count(*) FROM runs"), 8);
    EXPECT_EQ(count(store, "SELECT count(*) FROM runs WHERE class = 'crash' AND step_s_median IS NULL"), 4);
    EXPECT_EQ(count(store,
                    "SELECT count(*) FROM runs WHERE class = 'ok' AND ranks = 2 AND data_workers = 3 AND "
                    "policy_amp = 'none' AND step_s_median = 0.003"),
              1);
    EXPECT_EQ(count(store, "SELECT count(*) FROM ops JOIN runs ON runs.id = run_id WHERE kind = 'matmul'"),
              4);
    EXPECT_EQ(count(store, "SELECT count(*) FROM steps JOIN runs ON runs.id = run_id WHERE class = 'ok'"),
              16);
    EXPECT_EQ(count(store, "SELECT value FROM meta WHERE key = 'schema_version'"), Store::kSchemaVersion);
  };
  check();
  const auto runs = records::load_runs(scratch_ / "results");
  EXPECT_TRUE(store.put(runs[0]));  // replaces, does not duplicate
  check();
  write("results/index.sqlite",
        "this is no database, and longer than a hundred bytes so that it is read as one, surely" +
            std::string(4096, 'x'));
  write("results/index.sqlite-journal", "stale");
  EXPECT_FALSE(store.put(runs[0]));
  store.rebuild(runs);
  check();
  std::filesystem::remove(store.file());
  EXPECT_FALSE(store.put(runs[0]));
  EXPECT_EQ(
      run(sweep("axes: {gpus: [1, 2], workers: [0, 3], train.seed: [0, " + seed(Fault::segv) + "]}")).started,
      0);
  check();
}

// Kinds of nets have different keys; each value must be in its own column.
TEST_F(ResultsTest, IndexHoldsRunsOfEveryKindOfNet) {
  std::filesystem::create_directories(scratch_ / "results");
  const Store store(scratch_ / "results");
  std::vector<records::RunRecord> runs;
  for (const std::string& kind : NetSpec::kinds()) {
    records::RunRecord& r = runs.emplace_back();
    r.id = kind;
    r.spec.net.set_kind(kind);
    r.spec.train.steps = 77;
    r.spec.data.train = "somewhere";
  }
  store.rebuild(runs);
  EXPECT_TRUE(store.put(runs.back()));
  EXPECT_EQ(count(store, "SELECT count(*) FROM runs"), static_cast<int64_t>(NetSpec::kinds().size()));
  EXPECT_EQ(count(store,
                  "SELECT count(*) FROM runs WHERE id = net_kind AND train_steps = 77 AND data_train = "
                  "'somewhere' AND layout_dp = 1"),
            static_cast<int64_t>(NetSpec::kinds().size()));
  EXPECT_EQ(count(store, "SELECT net_in_features FROM runs WHERE id = 'mlp'"), 14);
  EXPECT_EQ(count(store, "SELECT net_bottleneck_depth FROM runs WHERE id = 'unet'"), 6);
  EXPECT_EQ(count(store, "SELECT net_vocab_size FROM runs WHERE id = 'gpt'"), 50257);
  EXPECT_EQ(count(store, "SELECT count(*) FROM runs WHERE net_embed_dim IS NULL"), 4)
      << "an mlp has none, nor have the two graph nets";
}

TEST_F(ResultsTest, IndexOfAnotherSchemaIsReplaced) {
  run(sweep("axes: {train.seed: [0]}"));
  const Store store(scratch_ / "results");
  SQLite::Database(store.file().string(), SQLite::OPEN_READWRITE).exec("UPDATE meta SET value = '999'");
  EXPECT_FALSE(store.put(records::load_runs(scratch_ / "results")[0]));
  run(sweep("axes: {train.seed: [0]}"));
  EXPECT_EQ(count(store, "SELECT value FROM meta WHERE key = 'schema_version'"), Store::kSchemaVersion);
}

}  // namespace
}  // namespace isobar::sweep
