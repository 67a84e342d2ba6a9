// Parameters and experts of published nets, against the sizes that their authors print.
#include "perfmodel/score/counts/net_counts.h"

#include <gtest/gtest.h>

#include <random>

#include "model/base/spec/spec.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/score/counts/hardware.h"
#include "perfmodel/score/counts/step_model.h"
#include "perfmodel/score/published/published_spec.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

PublishedRun row_of(const std::string& cells) {
  const std::string columns =
      "arch,layers,hidden,ffn_hidden,heads,kv_heads,head_dim,vocab,seq_len,experts,top_k,expert_ffn,shared_"
      "experts,"
      "params_b,gpus,gpu_type,dp,tp,pp,ep,micro_batch,global_batch,step_time_s\n";
  const PublishedTable t = published_from(parse_csv(columns + cells + "\n", "t.csv"));
  if (t.runs.size() != 1) throw std::runtime_error(t.refused.empty() ? "no row" : t.refused.begin()->first);
  return t.runs[0];
}

const std::string kWhere = ",64,H100,16,4,1,8,1,64,100";

// Mixtral 8x7B 46.70e9 (arXiv 2401.04088, config.json), of which a token uses 12.9e9.
TEST(NetCounts, Mixtral) {
  const PublishedRun r = row_of("moe,32,4096,14336,32,8,128,32000,4096,8,2,14336,," + kWhere);
  EXPECT_EQ(r.dense_layers, 0);
  EXPECT_NEAR(net_parameters(r), 46.70e9, 0.01e9);
  EXPECT_NEAR(used_parameters(r), 12.88e9, 0.02e9);
}

// DeepSeek-V3 (arXiv 2412.19437): 671e9, of which a token uses 37e9; the first three layers are dense.
TEST(NetCounts, DeepSeekV3sDenseLayersAreFoundByItsParameters) {
  const PublishedRun r = row_of("moe-mla,61,7168,18432,128,,,129280,4096,256,8,2048,1,671" + kWhere);
  EXPECT_EQ(r.dense_layers, 3);
  EXPECT_NEAR(net_parameters(r), 671.0e9, 0.2e9);
  EXPECT_NEAR(used_parameters(r), 37.5e9, 0.5e9);
}

// The shipped net is planned with as many, but for norms and biases.
TEST(NetCounts, DeepSeekV3sPlanHasTheSame) {
  const Machine machine = load_machine(source_dir() + "/configs/machines/dgx-h100.yaml");
  const ChipSpec chip = chip_of(machine);
  const RunSpec spec = load_run_spec(source_dir() + "/configs/models/deepseek-v3.yaml");
  const PublishedRun r = run_of(spec, machine, chip, {});
  EXPECT_NEAR(net_parameters(r) / 671026404352.0, 1, 1e-5);
  const PublishedRun published = row_of("moe-mla,61,7168,18432,128,,,129280,4096,256,8,2048,1,671" + kWhere);
  EXPECT_DOUBLE_EQ(net_parameters(r), net_parameters(published));
  EXPECT_DOUBLE_EQ(count_step(run_of(spec_of(published), machine, chip, {})).gemm_s,
                   count_step(published).gemm_s);
}

// Llama 4 Maverick has experts in every second layer; without its parameters that is not known.
TEST(NetCounts, MavericksExpertsAreInEverySecondLayer) {
  const std::string net = "moe,48,5120,16384,40,8,128,202048,8192,128,1,8192,1,";
  EXPECT_EQ(row_of(net + "400" + kWhere).dense_layers, 24);
  EXPECT_EQ(row_of(net + kWhere).dense_layers, 0);
  EXPECT_ANY_THROW(row_of("moe,48,5120,16384,40,8,128,202048,8192,128,200,8192,1,400" + kWhere));
}

TEST(NetCounts, ExpertsBeyondTheReplicasAreNotCutByTensorRanks) {
  PublishedRun r =
      row_of("moe-mla,61,7168,18432,128,,,129280,4096,256,8,2048,1,671,64,H100,16,4,1,16,1,64,1000");
  EXPECT_EQ(experts_of(r).tp, 4);
  EXPECT_EQ(experts_of(r).replicas, 1);
  EXPECT_EQ(experts_of(r).rows, 4096 * 8 * 16 / 256.0);
  const double cut = own_parameters(r).experts;
  r.ep = 64;
  EXPECT_EQ(experts_of(r).tp, 1);
  EXPECT_EQ(experts_of(r).replicas, 1);
  EXPECT_EQ(experts_of(r).rows, 4096 * 8 * 16 / 256.0);
  EXPECT_DOUBLE_EQ(own_parameters(r).experts, cut);
}

// Rank by rank: every rank computes the products of tokens / tp, wherever the experts are.
TEST(NetCounts, WorkOfExpertsIsThatOfTheTokensThatChooseThem) {
  std::mt19937 random(std::random_device{}());
  const auto one_of = [&](std::initializer_list<double> v) { return *(v.begin() + random() % v.size()); };
  for (int i = 0; i < 100; ++i) {
    PublishedRun r = row_of("moe,32,4096,14336,32,8,128,32000,4096,64,2,2048,,," + kWhere.substr(1));
    r.top_k = one_of({1, 2, 4, 8});
    r.ep = one_of({1, 2, 4, 8, 16, 64});
    r.expert_ffn = one_of({1024, 2048});
    const PlacedExperts e = experts_of(r);
    const double flops = 2 * 3 * r.hidden * r.expert_ffn / e.tp * e.rows * (r.experts / r.ep);  // of a rank
    const double tokens = r.micro_batch * r.seq;
    EXPECT_NEAR(flops / (2 * 3 * r.hidden * r.expert_ffn * r.top_k * tokens / r.tp), 1, 1e-12);
    EXPECT_NEAR(count_step(r).expert_s / (3 * flops / r.gpu->reached(Precision::bf16)), 1, 1e-12);
    if (r.ep > 1) {
      PublishedRun more = r;
      more.ep = 1;
      EXPECT_GT(count_step(r).ep_s, count_step(more).ep_s);
    }
  }
}

}  // namespace
}  // namespace isobar::perf
