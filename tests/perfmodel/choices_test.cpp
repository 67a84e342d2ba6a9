// Unsaid columns of rows: engines by name, chances of what other campaigns choose, and predictions over them.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <numeric>

#include "perfmodel/fitting/statistics.h"
#include "perfmodel/score/published/published_row.h"
#include "perfmodel/score/scoreboard/choices.h"
#include "perfmodel/score/scoreboard/predictor.h"
#include "perfmodel/score/scoreboard/referee.h"
#include "tests/paths.h"

namespace isobar::choices_tests {
namespace {

const perf::Library& tables() {
  static const perf::Library l = perf::load_library(source_dir() + "/configs/published");
  return l;
}

perf::Library tables_without(const std::string& campaign) {
  perf::Library out = tables();
  for (perf::PublishedTable& t : out) {
    std::erase_if(t.runs, [&](const perf::PublishedRun& r) { return r.campaign == campaign; });
    std::erase_if(t.open, [&](const perf::OpenRun& o) { return o.candidates.front().campaign == campaign; });
  }
  return out;
}

/// All runs of the shipped tables, as samples.
const perf::Samples& samples() {
  static std::vector<std::unique_ptr<perf::Sample>> owned;
  static perf::Samples all;
  if (all.empty())
    for (const perf::PublishedTable& t : tables())
      for (size_t i = 0; i < t.runs.size(); i += 5) {
        owned.push_back(std::make_unique<perf::Sample>(perf::sample_of(t.runs[i])));
        all.push_back(owned.back().get());
      }
  return all;
}

const std::string kHead =
    "arch,layers,hidden,heads,seq_len,gpus,gpu_type,tp,pp,micro_batch,global_batch,step_time_s,metric_name,"
    "framework,engine,flash_attention,schedule,sequence_parallel,zero_stage\n";

perf::PublishedTable read(const std::string& rows) {
  return perf::published_from(parse_csv(kHead + rows, "mine.csv"));
}

const perf::PublishedRun& only_run(const perf::PublishedTable& t) {
  if (t.runs.size() != 1) throw std::runtime_error("not one run");
  return t.runs.front();
}

TEST(Engines, AreCalledByTheirNamesInFrameworks) {
  EXPECT_EQ(perf::engine_called("NVIDIA NeMo (Megatron-Core)")->name, "nemo");
  EXPECT_EQ(perf::engine_called("Megatron-DeepSpeed (BigScience)")->name, "deepspeed");
  EXPECT_EQ(perf::engine_called("fms-fsdp (PyTorch FSDP1)")->name, "fsdp");
  EXPECT_EQ(perf::engine_called("torchtitan")->name, "torchtitan");
  EXPECT_EQ(perf::engine_called("DeepSpeed and NeMo"), nullptr);
  EXPECT_EQ(perf::engine_called("NeMoesque"), nullptr);
  EXPECT_EQ(perf::engine_called(""), nullptr);
}

TEST(Choices, RowsSayWhatTheyLeaveOut) {
  const std::string net = "gpt,48,8192,64,2048,512,H100,8,4,1,1024,9,,";
  const perf::PublishedTable silent = read(net + ",,,,,\n"), said = read(net + "NeMo,,y,1F1B,y,1\n");
  EXPECT_EQ(only_run(silent).unsaid, (std::set<std::string>{"engine", "flash_attention", "schedule",
                                                            "sequence_parallel", "zero_stage"}));
  EXPECT_TRUE(only_run(said).unsaid.empty());
  EXPECT_EQ(only_run(said).runs_on, &perf::engine_named("nemo"));
  EXPECT_EQ(only_run(read(net + ",torchtitan,unknown,1F1B,y,1\n")).unsaid,
            (std::set<std::string>{"flash_attention"}));
  const perf::PublishedTable wrong = read(net + ",nemmo,y,1F1B,y,1\n");
  ASSERT_EQ(wrong.refused_rows(), 1);
  EXPECT_NE(wrong.refused.begin()->first.find("nemo"), std::string::npos) << wrong.refused.begin()->first;
  // Nothing on Hopper or newer is read as unfused attention: flash attention is older.
  EXPECT_EQ(only_run(silent).attention, perf::AttentionKernel::flash2);
}

// Flash kernels are of 2-byte types: fp32 nets run PyTorch's memory-efficient one (NERSC's ViT: 38 % off as
// flash).
TEST(Choices, UnsaidAttentionOfFp32IsMemoryEfficient) {
  const perf::PublishedTable t = perf::published_from(parse_csv(
      "arch,layers,hidden,heads,seq_len,gpus,gpu_type,tp,pp,micro_batch,global_batch,step_time_s,precision\n"
      "vit,24,2048,16,2048,8,A100,1,1,4,256,200,fp32\nvit,24,2048,16,2048,8,A100,1,1,4,256,20,bf16\n",
      "mine.csv"));
  ASSERT_EQ(t.runs.size(), 2u);
  EXPECT_EQ(t.runs[0].attention, perf::AttentionKernel::memory_efficient);
  EXPECT_EQ(t.runs[1].attention, perf::AttentionKernel::flash2);
}

TEST(Choices, ReadingsAreLegalAndSumToOne) {
  const perf::Choices choices(samples());
  const perf::PublishedTable silent = read("gpt,48,8192,64,2048,512,H100,8,4,1,1024,9,,,,,,,\n");
  const std::vector<perf::RunReading> all = choices.readings(only_run(silent));
  double sum = 0, flash = 0;
  for (const perf::RunReading& r : all) {
    sum += r.chance;
    const perf::ForeignEngine* e = r.run.runs_on;
    EXPECT_TRUE(!e || (e->axes.tp && e->axes.pp)) << e->name << " has no such axis";
    EXPECT_TRUE(!e || e->axes.vpp || r.run.vpp == 1) << e->name;
    if (perf::is_fused(r.run.attention)) flash += r.chance;
    EXPECT_EQ(r.assumed.size(), 5u);
  }
  EXPECT_NEAR(sum, 1, 1e-9);
  EXPECT_GT(all.size(), 10u);
  EXPECT_NEAR(flash, 1, 1e-9);
  const perf::PublishedTable said = read("gpt,48,8192,64,2048,512,H100,8,4,1,1024,9,,NeMo,,y,1F1B,y,1\n");
  ASSERT_EQ(choices.readings(only_run(said)).size(), 1u);
}

// Values that one campaign states move the chances by their likeness, each campaign as one.
TEST(Choices, CountsAreOfCampaignsAndOfWhatIsAlike) {
  const std::string net = "gpt,24,2048,16,2048,64,A100,1,1,1,1024,9,,";
  const perf::PublishedTable silent = read(net + "Megatron-LM,,,,,1\n");
  std::vector<perf::PublishedTable> said;
  std::vector<std::unique_ptr<perf::Sample>> owned;
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
    perf::Samples all;
    for (const perf::PublishedTable& t : said) {
      owned.push_back(std::make_unique<perf::Sample>(perf::sample_of(t.runs.front())));
      all.push_back(owned.back().get());
    }
    double flash = 0;
    for (const perf::RunReading& r : perf::Choices(all).readings(only_run(silent)))
      flash += perf::is_fused(r.run.attention) ? r.chance : 0;
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
  perf::PublishedTable stranger = perf::published_from(csv);
  const perf::CampaignsOut out =
      perf::leave_campaigns_out(perf::kStepSeconds, {stranger}, tables_without("mosaic-llm-foundry"));
  ASSERT_EQ(out.campaigns.size(), 1u);
  EXPECT_EQ(out.campaigns[0].scores.rows, 300u);
  EXPECT_LT(out.campaigns[0].scores.mape, 0.2);
  EXPECT_GE(out.campaigns[0].scores.coverage, 0.75);
  for (const perf::ScoredRow& r : out.campaigns[0].rows) {
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
  std::vector<perf::RunReading> readings(3);
  const std::array<double, 3> chance{0.5, 0.3, 0.2}, value{1.0, 2.0, 2.2};
  for (size_t i = 0; i < 3; ++i) {
    readings[i].chance = chance[i];
    readings[i].run.layers = static_cast<double>(i);
    readings[i].assumed = {{"schedule", i == 0 ? "a" : "b"}, {"zero_stage", i == 1 ? "0" : "1"}};
  }
  const perf::OpenEstimate e = perf::over_readings(readings, [&](const perf::PublishedRun& r) {
    const double v = value[static_cast<size_t>(r.layers)];
    return perf::Estimated{v, v / 1.1, v * 1.1};
  });
  EXPECT_EQ(e.narrows, "schedule");
  EXPECT_GT(e.share, 0.8);
  EXPECT_NEAR(e.assumed.at("zero_stage").at("1"), 0.7, 1e-12);
  const double sigma = std::log(1.1) / kNormal80;
  for (const auto& [x, share] : {std::pair{e.of.lower, 0.1}, {e.of.value, 0.5}, {e.of.upper, 0.9}}) {
    double below = 0;
    for (size_t i = 0; i < 3; ++i) below += chance[i] * perf::normal_cdf(std::log(x / value[i]) / sigma);
    EXPECT_NEAR(below, share, 1e-6);
  }
}

// Narayanan 2021 without recomputation: 72 B s L h^2 (1 + s / 12 h + V / 12 L h), causal attention counted
// once.
TEST(ConstantMfu, IsTheMedianOfOtherCampaigns) {
  const perf::PublishedTable t = read(
      "gpt,24,2048,16,2048,8,A100,1,1,4,256,5,,,,,,,\ngpt,24,2048,16,2048,8,A100,1,1,4,256,10,,,,,,,\n"
      "gpt,24,2048,16,2048,8,A100,1,1,4,256,20,,,,,,,\ngpt,24,2048,16,2048,8,H100,1,1,4,256,4,,,,,,,\n");
  ASSERT_EQ(t.runs.size(), 4u);
  const double h = 2048, L = 24, s = 2048, V = 50304;
  EXPECT_NEAR(perf::model_flops(t.runs[0]), 72 * 256 * s * L * h * h * (1 + s / (12 * h) + V / (12 * L * h)),
              1e6);
  std::vector<perf::PublishedRun> runs = t.runs;
  std::vector<std::unique_ptr<perf::Sample>> owned;
  perf::Samples all;
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].campaign = "c" + std::to_string(i);
    owned.push_back(std::make_unique<perf::Sample>(perf::sample_of(runs[i])));
    all.push_back(owned.back().get());
  }
  const perf::ConstantMfu usual(all);
  EXPECT_NEAR(usual.seconds(runs[0]), 10, 1e-9);  // of the A100's three
  EXPECT_NEAR(usual.seconds(runs[3]), 4, 1e-9);
  EXPECT_EQ(perf::ConstantMfu(perf::Samples{}).seconds(runs[0]), 0);
}

}  // namespace
}  // namespace isobar::choices_tests
