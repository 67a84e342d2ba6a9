// The cost of a checkpoint, by hand and as a fit recovers it from runs.
#include "perfmodel/step/checkpoint.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "perfmodel/ask/predict.h"
#include "perfmodel/fitting/statistics.h"
#include "support.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

RunSpec gpt(int64_t dp, int64_t tp, int64_t pp) {
  RunSpec s;
  s.file = "test";
  GptSpec net;
  net.embed_dim = 4096;
  net.depth = 8;
  net.num_heads = 32;
  net.seq_length = 2048;
  net.vocab_size = 51200;
  s.net = net;
  s.policy.amp = Amp::bf16;
  s.policy.micro_batch = 1;
  s.layout = {.dp = dp, .tp = tp, .pp = pp};
  s.run.device = RunDevice::cuda;
  s.train.global_batch = 16 * dp;
  s.train.checkpoint_every = 100;
  return s;
}

TEST(Checkpoint, HoldsParametersAndMomentsOnceWhateverTheLayout) {
  const Machine m = load_machine(source_dir() + "/configs/machines/dgx-a100.yaml");
  // 12 h^2 + 13 h a block, two norms, and an untied head
  const double h = 4096, parameters = 8 * (12 * h * h + 13 * h) + 2 * 51200 * h + 2048 * h + 2 * h;
  for (const auto& [dp, tp, pp] : {std::array<int64_t, 3>{1, 1, 1}, {4, 1, 1}, {2, 4, 1}, {1, 2, 4}}) {
    const RunSpec s = gpt(dp, tp, pp);
    const Prediction p = predict(s, m, {});
    EXPECT_NEAR(p.checkpoint.bytes / (12 * parameters), 1, 1e-9) << dp << tp << pp;
    const double by_hand = m[Coef::commit].value + p.checkpoint.bytes * m[Coef::checkpoint].value;
    EXPECT_NEAR(p.checkpoint.seconds / by_hand, 1, 1e-9);
    EXPECT_NEAR(p.checkpoint.per_step * 100 / p.checkpoint.seconds, 1, 1e-12);
  }
}

// Writers are read from the plans: the price counts the fullest host's bytes.
TEST(Checkpoint, IsPricedByWhatEachHostWritesWhateverZero) {
  const int64_t on_host = 2;
  for (const char* order : {"tp-cp-dp-pp", "dp-tp-cp-pp", "pp-tp-cp-dp"})
    for (const auto& [dp, tp, pp] : {std::array<int64_t, 3>{8, 1, 1}, {4, 2, 1}, {2, 2, 2}, {4, 1, 2}})
      for (const int64_t zero : {0, 1}) {
        RunSpec s = gpt(dp, tp, pp);
        s.layout.order = order;
        s.policy.zero = zero;
        std::map<int64_t, double> written;  // by host
        for (int rank = 0; rank < s.layout.world(); ++rank) {
          const plan::Plan plan = nets::build_plan(s, rank, {});
          for (const plan::Param& p : plan.params)
            for (const plan::Shard& shard : plan.shards)
              if (p.writer)
                written[rank / on_host] += static_cast<double>(
                    std::max<int64_t>(0, std::min(p.offset + p.count, shard.begin + shard.count) -
                                             std::max(p.offset, shard.begin)));
        }
        double fullest = 0, all = 0;
        for (const auto& [host, elements] : written) fullest = std::max(fullest, elements), all += elements;
        const CheckpointWork w = checkpoint_work(s, all, on_host);
        const double counted = w.counts[index_of(Coef::checkpoint)] / 12;  // elements
        EXPECT_GT(fullest / counted, 0.6)
            << order << " dp" << dp << " tp" << tp << " pp" << pp << " zero " << zero;
        EXPECT_LT(fullest / counted, 1.6)
            << order << " dp" << dp << " tp" << tp << " pp" << pp << " zero " << zero;
      }
}

TEST(Checkpoint, AllHostsWriteAtOnceAsFarAsTheFileSystemTakesIt) {
  Machine m = load_machine(source_dir() + "/configs/machines/dgx-a100.yaml");
  RunSpec s = gpt(16, 2, 1);  // 4 hosts of 8
  const auto writing = [&] { return predict(s, m, {}).checkpoint.seconds - m[Coef::commit].value; };
  const double whole = writing();
  s.policy.zero = 1;
  EXPECT_NEAR(whole / writing(), 1, 1e-9);  // without shards replicas also share the writing
  const double host = m[Coef::checkpoint].value * predict(s, m, {}).checkpoint.bytes;
  EXPECT_NEAR(host / writing(), 4, 1e-9);
  s.train.optimizer = OptimizerKind::sgd;
  EXPECT_NEAR(host / writing(), 6, 1e-9);
  m.storage.filesystem_bandwidth = 1e9;
  EXPECT_NEAR(writing() / (predict(s, m, {}).checkpoint.bytes / 1e9), 1, 1e-9);
  s.train.checkpoint_every = 0;
  EXPECT_EQ(predict(s, m, {}).checkpoint.per_step, 0);
}

// 12 TB in 1.3 s is no prediction: unknown storage is named, and widens the interval.
TEST(Checkpoint, NamesWhatItAssumesOfStorageAndIsNotSureOfIt) {
  Machine m = load_machine(source_dir() + "/configs/machines/dgx-b200.yaml");
  RunSpec s = load_run_spec(source_dir() + "/configs/models/gpt3-1t.yaml");
  const auto cost = [&] { return checkpoint_cost(s, 1e12, m, 8); };
  s.layout = {.dp = 32, .tp = 8, .pp = 64};
  const CheckpointCost unknown = cost();
  EXPECT_NEAR(unknown.bytes, 12e12, 1);
  EXPECT_GT(unknown.seconds, 10);
  EXPECT_GT(unknown.upper / unknown.lower, 10);
  ASSERT_EQ(unknown.assumed.size(), 2u);
  const std::string text = text_of(unknown, s, 1);
  EXPECT_NE(text.find("storage.host_bandwidth"), std::string::npos) << text;
  EXPECT_NE(text.find("storage.filesystem_bandwidth"), std::string::npos) << text;
  m = parse_machine(to_yaml(m), "m.yaml");
  m.storage = {5e9, 4e11, {"ior"}};
  const CheckpointCost known = cost();
  EXPECT_TRUE(known.assumed.empty()) << known.assumed[0];
  EXPECT_NEAR((known.seconds - m[Coef::commit].value) / 30, 1, 1e-9);
  EXPECT_LT(known.upper / known.lower, unknown.upper / unknown.lower);
}

TEST(Checkpoint, IsAffineInBytesAndProportionalToItsPrices) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> log_parameters(std::log(1e4), std::log(1e11));
  for (int i = 0; i < 100; ++i) {
    Machine m = test::perturbed(test::machine(), 1.5, random);
    RunSpec s = test::tiny();
    s.train.checkpoint_every = 1 + static_cast<int64_t>(random() % 1000);
    const double parameters = std::exp(log_parameters(random));
    const auto cost = [&](double n) { return checkpoint_cost(s, n, m, 1); };
    const CheckpointCost c = cost(parameters);
    EXPECT_NEAR(cost(0).seconds / m[Coef::commit].value, 1, 1e-12);  // files, even if empty
    EXPECT_NEAR((cost(3 * parameters).seconds - cost(2 * parameters).seconds) /
                    (cost(2 * parameters).seconds - c.seconds),
                1, 1e-5);
    EXPECT_GT(c.seconds, c.lower);
    EXPECT_LT(c.seconds, c.upper);
    EXPECT_NEAR(std::log(c.upper / c.seconds) / std::log(c.seconds / c.lower), 1, 1e-9);
    EXPECT_NEAR(c.per_step * static_cast<double>(s.train.checkpoint_every) / c.seconds, 1, 1e-12);
    for (const Coef k : {Coef::commit, Coef::checkpoint})
      m[k] = Coefficient::make(2 * m[k].value, 0.1, {"benchmark"});  // higher and more certain
    const CheckpointCost dear = cost(parameters);
    EXPECT_NEAR(dear.seconds / c.seconds, 2, 1e-9);
    EXPECT_LT(dear.upper / dear.lower, c.upper / c.lower);
  }
}

// Nets of 10 kB to 0.4 GB on a machine whose disk differs from the spec sheet's.
TEST(Checkpoint, FitRecoversItsPricesFromRunsAndItsIntervalsAreHonest) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> far(-1.5, 1.5), scatter(0.1, 0.6);
  double inside = 0, of = 0;
  std::vector<double> errors;
  for (int machine = 0; machine < 8; ++machine) {
    Machine truth = test::machine();
    std::normal_distribution<double> noise(0, scatter(random));
    for (const Coef k : {Coef::commit, Coef::checkpoint}) truth[k].value *= std::exp(far(random));
    std::vector<MeasuredRun> runs;
    const auto run = [&](int64_t width, int64_t depth, int64_t ranks) {
      RunSpec s = test::tiny();
      s.net.vit().embed_dim = width;
      s.net.vit().depth = depth;
      s.layout.dp = ranks;
      const auto parameters = static_cast<double>(nets::build_plan(s, 0, {}).parameter_count());
      runs.push_back(
          {.id = "run" + std::to_string(runs.size()),
           .spec = s,
           .host = {.ranks_on_host = ranks, .threads = 1},
           .step_s = test::closed(s, truth),
           .checkpoint_s = checkpoint_cost(s, parameters, truth, ranks).seconds * std::exp(noise(random))});
      return parameters;
    };
    for (const int64_t ranks : {1, 2})
      for (const auto& [width, depth] : {std::pair{8, 1}, {16, 2}, {128, 4}, {256, 8}, {512, 12}})
        run(width, depth, ranks);
    const Machine fitted = fit(runs, test::machine());
    for (const Coef k : {Coef::commit, Coef::checkpoint}) {
      errors.push_back(std::abs(std::log(fitted[k].value / truth[k].value)));
      EXPECT_LT(fitted[k].log_sigma(), 0.8 * test::machine()[k].log_sigma()) << info_of(k).name;
      EXPECT_EQ(fitted[k].provenance.at(0).substr(0, 3), "run");
    }
    for (const int64_t width : {24, 192, 384}) {  // nets without runs
      const size_t last = runs.size();
      const double parameters = run(width, 6, 1);
      const CheckpointCost c = checkpoint_cost(runs[last].spec, parameters, fitted, 1);
      inside += c.lower <= runs[last].checkpoint_s && runs[last].checkpoint_s <= c.upper ? 1 : 0;
      of += 1;
    }
  }
  RecordProperty("median", std::to_string(quantile(errors, 0.5)));
  RecordProperty("coverage", std::to_string(inside / of));
  EXPECT_LT(quantile(errors, 0.5), 0.35);
  EXPECT_LT(quantile(errors, 0.9), 0.8);
  EXPECT_GE(inside / of, 0.5);  // of 24 with 80 % each, 12 or fewer come once in a thousand
}

TEST(Checkpoint, RunsWithoutAnyLeaveItsPricesAlone) {
  const Machine m = test::machine();
  const RunSpec s = test::tiny();
  const Machine fitted = fit({{.id = "run", .spec = s, .step_s = 1.1 * test::closed(s, m)}}, m);
  for (const Coef k : {Coef::commit, Coef::checkpoint}) {
    EXPECT_NEAR(fitted[k].value / m[k].value, 1, 1e-6);
    EXPECT_EQ(fitted[k].provenance, std::vector<std::string>{"spec"});
  }
}

}  // namespace
}  // namespace isobar::perf
