// Unsaid columns of rows: engines by name, chances of what other campaigns choose, and predictions over them.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <numeric>

#include "perfmodel/fitting/statistics.h"
#include "perfmodel/score/published/open_run.h"
#include "perfmodel/score/scoreboard/campaigns_out.h"
#include "perfmodel/score/scoreboard/choices.h"
#include "perfmodel/score/scoreboard/constant_mfu.h"
#include "tests/paths.h"

namespace isobar::choices_tests {
namespace {

const Library& tables() {
  static const Library l = load_library(source_dir() + "/configs/published");
  return l;
}

Library tables_without(const std::string& campaign) {
  Library out = tables();
  for (PublishedTable& t : out) {
    std::erase_if(t.runs, [&](const PublishedRun& r) { return r.campaign == campaign; });
    std::erase_if(t.open, [&](const OpenRun& o) { return o.candidates.front().campaign == campaign; });
  }
  return out;
}

/// All runs of the shipped tables, as samples.
const Samples& samples() {
  static std::vector<std::unique_ptr<Sample>> owned;
  static Samples all;
  if (all.empty())
    for (const PublishedTable& t : tables())
      for (size_t i = 0; i < t.runs.size(); i += 5) {
        owned.push_back(std::make_unique<Sample>(sample_of(t.runs[i])));
        all.push_back(owned.back().get());
      }
  return all;
}

const std::string kHead =
    "arch,layers,hidden,heads,seq_len,gpus,gpu_type,tp,pp,micro_batch,global_batch,step_time_s,metric_name,"
    "framework,engine,flash_attention,schedule,sequence_parallel,zero_stage\n";

PublishedTable read(const std::string& rows) {
  return published_from(parse_csv(kHead + rows, "mine.csv"));
}

const PublishedRun& only_run(const PublishedTable& t) {
  if (t.runs.size() != 1) throw std::runtime_error("not one run");
  return t.runs.front();
}

TEST(Engines, AreCalledByTheirNamesInFrameworks) {
  EXPECT_EQ(engine_called("NVIDIA NeMo (Megatron-Core)")->name, "nemo");
  EXPECT_EQ(engine_called("Megatron-DeepSpeed (BigScience)")->name, "deepspeed");
  EXPECT_EQ(engine_called("fms-fsdp (PyTorch FSDP1)")->name, "fsdp");
  EXPECT_EQ(engine_called("torchtitan")->name, "torchtitan");
  EXPECT_EQ(engine_called("DeepSpeed and NeMo"), nullptr);
  EXPECT_EQ(engine_called("NeMoesque"), nullptr);
  EXPECT_EQ(engine_called(""), nullptr);
}

TEST(Choices, RowsSayWhatTheyLeaveOut) {
  const std::string net = "gpt,48,8192,64,2048,512,H100,8,4,1,1024,9,,";
  const PublishedTable silent = read(net + ",,,,,\n"), said = read(net + "NeMo,,y,1F1B,y,1\n");
  EXPECT_EQ(only_run(silent).unsaid, (std::set<std::string>{"engine", "flash_attention", "schedule",
                                                            "sequence_parallel", "zero_stage"}));
  EXPECT_TRUE(only_run(said).unsaid.empty());
  EXPECT_EQ(only_run(said).runs_on, &engine_named("nemo"));
  EXPECT_EQ(only_run(read(net + ",torchtitan,unknown,1F1B,y,1\n")).unsaid,
            (std::set<std::string>{"flash_attention"}));
  const PublishedTable wrong = read(net + ",nemmo,y,1F1B,y,1\n");
  ASSERT_EQ(wrong.refused_rows(), 1);
  EXPECT_NE(wrong.refused.begin()->first.find("nemo"), std::string::npos) << wrong.refused.begin()->first;
  // Nothing on Hopper or newer is read as unfused attention: flash attention is older.
  EXPECT_EQ(only_run(silent).attention, AttentionKernel::flash2);
}

// Flash kernels are of 2-byte types: fp32 nets run PyTorch's memory-efficient one (NERSC's ViT: 38 % off as
// flash).
TEST(Choices, UnsaidAttentionOfFp32IsMemoryEfficient) {
  const PublishedTable t = published_from(parse_csv(
      "arch,layers,hidden,heads,seq_len,gpus,gpu_type,tp,pp,micro_batch,global_batch,step_time_s,precision\n"
      "vit,24,2048,16,2048,8,A100,1,1,4,256,200,fp32\nvit,24,2048,16,2048,8,A100,1,1,4,256,20,bf16\n",
      "mine.csv"));
  ASSERT_EQ(t.runs.size(), 2u);
  EXPECT_EQ(t.runs[0].attention, AttentionKernel::memory_efficient);
  EXPECT_EQ(t.runs[1].attention, AttentionKernel::flash2);
}

TEST(Choices, ReadingsAreLegalAndSumToOne) {
  const Choices choices(samples());
  const PublishedTable silent = read("gpt,48,8192,64,2048,512,H100,8,4,1,1024,9,,,,,,,\n");
  const std::vector<RunReading> all = choices.readings(only_run(silent));
  double sum = 0, flash = 0;
  for (const RunReading& r : all) {
    sum += r.chance;
    const ForeignEngine* e = r.run.runs_on;
    EXPECT_TRUE(!e || (e->axes.tp && e->axes.pp)) << e->name << " has no such axis";
    EXPECT_TRUE(!e || e->axes.vpp || r.run.vpp == 1) << e->name;
    if (is_fused(r.run.attention)) flash += r.chance;
    EXPECT_EQ(r.assumed.size(), 5u);
  }
  EXPECT_NEAR(sum, 1, 1e-9);
  EXPECT_GT(all.size(), 10u);
  EXPECT_NEAR(flash, 1, 1e-9);
  const PublishedTable said = read("gpt,48,8192,64,2048,512,H100,8,4,1,1024,9,,NeMo,,y,1F1B,y,1\n");
  ASSERT_EQ(choices.readings(only_run(said)).size(), 1u);
}

// Values that one campaign states move the chances by their likeness, each campaign as one.
TEST(Choices, CountsAreOfCampaignsAndOfWhatIsAlike) {
  const std::string net = "gpt,24,2048,16,2048,64,A100,1,1,1,1024,9,,";
  const PublishedTable silent = read(net + "Megatron-LM,,,,,1\n");
  std::vector<PublishedTable> said;
  std::vector<std::unique_ptr<Sample>> owned;
  const auto campaign = [&](const char* name, const char* flash, const char* chip, int rows) {
    for (int i = 0; i < rows; ++i) {
      said.push_back(read(std::string("gpt,24,2048,16,2048,64,") + chip + ",1,1,1,1024,9,,Megatron-LM,," +
                          flash + ",,,1\n"));
      said.back().runs.front().campaign = name;
    }
  };
  campaign("a", "y", "A100", 1);
  campaign("b", "n", "A100", 50);
  const auto chance_of_flash = [&] {
    owned.clear();
    Samples all;
    for (const PublishedTable& t : said) {
      owned.push_back(std::make_unique<Sample>(sample_of(t.runs.front())));
      all.push_back(owned.back().get());
    }
    double flash = 0;
    for (const RunReading& r : Choices(all).readings(only_run(silent)))
      flash += is_fused(r.run.attention) ? r.chance : 0;
    return flash;
  };
  const double even = chance_of_flash();
  EXPECT_NEAR(even, 0.5, 0.1);
  campaign("c", "y", "B200", 1);  // of another generation
  const double with_far = chance_of_flash();
  EXPECT_GT(with_far, even);
  campaign("d", "y", "A100", 1);
  EXPECT_GT(chance_of_flash() - with_far, with_far - even);
}

// MosaicML's rows with engine and policies blanked were 86 % off when the worst was assumed.
TEST(Choices, CampaignsThatSayLittleArePredictedOverAllThatTheyMayBe) {
  CsvTable csv = read_csv(source_dir() + "/configs/published/mosaic_llm_foundry.csv");
  for (CsvRow& row : csv.rows)
    row = row.with({{"flash_attention", ""},
                    {"zero_stage", ""},
                    {"framework", ""},
                    {"source", "stranger"},
                    {"row_id", "stranger " + std::to_string(row.line())}});
  PublishedTable stranger = published_from(csv);
  const CampaignsOut out =
      leave_campaigns_out(kStepSeconds, {stranger}, tables_without("mosaic-llm-foundry"));
  ASSERT_EQ(out.campaigns.size(), 1u);
  EXPECT_EQ(out.campaigns[0].scores.rows, 300u);
  EXPECT_LT(out.campaigns[0].scores.mape, 0.2);
  EXPECT_GE(out.campaigns[0].scores.coverage, 0.75);
  for (const ScoredRow& r : out.campaigns[0].rows) {
    EXPECT_FALSE(r.narrows.empty()) << r.id;
    for (const auto& [column, values] : r.assumed) {
      double sum = 0;
      for (const auto& [value, chance] : values) sum += chance;
      EXPECT_NEAR(sum, 1, 1e-6) << r.id << " " << column;
    }
  }
}

// A mixture's median and interval against sampling; the column that explains the spread is named.
TEST(Choices, MixturesHaveTheQuantilesOfTheirParts) {
  std::vector<RunReading> readings(3);
  const std::array<double, 3> chance{0.5, 0.3, 0.2}, value{1.0, 2.0, 2.2};
  for (size_t i = 0; i < 3; ++i) {
    readings[i].chance = chance[i];
    readings[i].run.layers = static_cast<double>(i);
    readings[i].assumed = {{"schedule", i == 0 ? "a" : "b"}, {"zero_stage", i == 1 ? "0" : "1"}};
  }
  const OpenEstimate e = over_readings(readings, [&](const PublishedRun& r) {
    const double v = value[static_cast<size_t>(r.layers)];
    return Estimated{v, v / 1.1, v * 1.1};
  });
  EXPECT_EQ(e.narrows, "schedule");
  EXPECT_GT(e.share, 0.8);
  EXPECT_NEAR(e.assumed.at("zero_stage").at("1"), 0.7, 1e-12);
  const double sigma = std::log(1.1) / kNormal80;
  for (const auto& [x, share] : {std::pair{e.of.lower, 0.1}, {e.of.value, 0.5}, {e.of.upper, 0.9}}) {
    double below = 0;
    for (size_t i = 0; i < 3; ++i) below += chance[i] * normal_cdf(std::log(x / value[i]) / sigma);
    EXPECT_NEAR(below, share, 1e-6);
  }
}

// Narayanan 2021 without recomputation: 72 B s L h^2 (1 + s / 12 h + V / 12 L h), causal attention counted
// once.
TEST(ConstantMfu, IsTheMedianOfOtherCampaigns) {
  const PublishedTable t = read(
      "gpt,24,2048,16,2048,8,A100,1,1,4,256,5,,,,,,,\ngpt,24,2048,16,2048,8,A100,1,1,4,256,10,,,,,,,\n"
      "gpt,24,2048,16,2048,8,A100,1,1,4,256,20,,,,,,,\ngpt,24,2048,16,2048,8,H100,1,1,4,256,4,,,,,,,\n");
  ASSERT_EQ(t.runs.size(), 4u);
  const double h = 2048, L = 24, s = 2048, V = 50304;
  EXPECT_NEAR(model_flops(t.runs[0]), 72 * 256 * s * L * h * h * (1 + s / (12 * h) + V / (12 * L * h)), 1e6);
  std::vector<PublishedRun> runs = t.runs;
  std::vector<std::unique_ptr<Sample>> owned;
  Samples all;
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].campaign = "c" + std::to_string(i);
    owned.push_back(std::make_unique<Sample>(sample_of(runs[i])));
    all.push_back(owned.back().get());
  }
  const ConstantMfu usual(all);
  EXPECT_NEAR(usual.seconds(runs[0]), 10, 1e-9);  // of the A100's three
  EXPECT_NEAR(usual.seconds(runs[3]), 4, 1e-9);
  EXPECT_EQ(ConstantMfu(Samples{}).seconds(runs[0]), 0);
}

}  // namespace
}  // namespace isobar::choices_tests
