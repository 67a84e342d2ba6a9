// A user's few own runs, and rows with open inputs.
#include "perfmodel/score/own_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "perfmodel/machine/shipped.h"
#include "perfmodel/score/engine_model.h"
#include "perfmodel/score/prices/sample.h"
#include "perfmodel/score/published/published_row.h"
#include "perfmodel/score/published/published_spec.h"
#include "perfmodel/score/scoreboard/choices.h"
#include "perfmodel/score/scoreboard/referee.h"
#include "tests/engine/command.h"
#include "tests/paths.h"

namespace isobar::engine_tests {
namespace {

const std::string kPublished = source_dir() + "/configs/published/";

const perf::Library& tables() {
  static const perf::Library l = perf::load_library(kPublished);
  return l;
}

perf::Library tables_without(const std::string& campaign) {
  perf::Library out = tables();
  for (perf::PublishedTable& t : out)
    std::erase_if(t.runs, [&](const perf::PublishedRun& r) { return r.campaign == campaign; });
  return out;
}

TEST(ShippedFiles, AMissingFolderIsNoEmptyList) {
  EXPECT_EQ(perf::files_in(source_dir() + "/configs/engines", ".yaml").size(),
            perf::shipped_engines().size());
  for (const char* folder : {"nowhere", "configs/engines"}) {  // the second holds no table
    try {
      perf::files_in(source_dir() + "/" + folder, ".csv");
      FAIL() << folder;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(folder), std::string::npos) << e.what();
    }
  }
}

// Three random rows of a campaign outside the fit's tables: predictions of the others improve by half on
// average (perfmodel/score/README.md), here by at least a fifth.
TEST(OwnRuns, ThreeOfAnUnseenCampaignTellOfTheOthers) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  perf::EngineModel model(tables_without("zero-bubble"), &perf::engine_named("megatron"));
  std::vector<perf::PublishedRun> rows = perf::read_published(kPublished + "zero_bubble_pp.csv").runs;
  for (perf::PublishedRun& r : rows) perf::as_asked(r);
  const auto error = [&](size_t from) {
    double sum = 0;
    for (size_t i = from; i < rows.size(); ++i)
      sum += std::abs(model.predict(rows[i]).step.value / rows[i].step_s - 1);
    return sum / static_cast<double>(rows.size() - from);
  };
  const double without = error(0);
  double with = 0;
  constexpr int kDraws = 12;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::shuffle(rows.begin(), rows.end(), random);
    model.learn({rows.begin(), rows.begin() + 3});
    with += error(3) / kDraws;
  }
  EXPECT_LT(with, 0.8 * without);
  model.learn({});
  EXPECT_DOUBLE_EQ(error(0), without);
}

// A prediction of the one run given: the measurement outweighs all prior belief.
TEST(OwnRuns, OneRunSettlesItsOwnQuestion) {
  const perf::Machine m = perf::load_machine(source_dir() + "/configs/machines/dgx-a100.yaml");
  const perf::ChipSpec chip = perf::chip_of(m);
  perf::EngineModel model(tables_without("zero-bubble"), &perf::engine_named("megatron"));
  size_t asked = 0;
  for (perf::PublishedRun r : perf::read_published(kPublished + "zero_bubble_pp.csv").runs) {
    if (r.schedule != perf::Schedule::one_f_one_b) continue;
    RunSpec spec;
    try {
      spec = perf::spec_of(r);
    } catch (const ConfigError&) {
      continue;  // not expressible by our plans
    }
    perf::PublishedRun question = perf::run_of(spec, m, chip, r.habits);
    // Facts that our configurations do not have
    question.short_end_stages = r.short_end_stages;
    question.stages_together = r.stages_together;
    question.attention = r.attention;
    r.gpu = &chip;
    perf::as_asked(r);
    model.learn({});
    const perf::Estimated before = model.predict(question).step;
    model.learn({r});
    const perf::Estimated after = model.predict(question).step;
    const double off = std::abs(std::log(after.value / r.step_s));
    EXPECT_LT(off, 0.5 * std::abs(std::log(before.value / r.step_s)) + 0.03) << r.id;
    EXPECT_LT(after.upper / after.lower, 1.001 * before.upper / before.lower) << r.id;
    EXPECT_TRUE(after.lower < r.step_s && r.step_s < after.upper) << r.id;
    ++asked;
  }
  EXPECT_GE(asked, 3u);
}

TEST(OwnRuns, TheFileHoldsTheRowsAndItsMachine) {
  const Folder folder;
  const perf::Machine m = perf::load_machine(source_dir() + "/configs/machines/dgx-a100.yaml");
  const perf::ChipSpec chip = perf::chip_of(m);
  const std::string head =
      "arch,layers,hidden,heads,seq_len,gpus,tp,pp,micro_batch,global_batch,step_time_s\n";
  const auto keep = [&](const std::string& rows) {
    write_atomically(folder / "mine.csv", head + rows);
    perf::save_own_runs(perf::own_runs(read_file(folder / "mine.csv"), "mine.csv", "megatron", 0.5, m),
                        folder / "fit.json");
    return perf::load_own_runs(folder / "fit.json", m);
  };
  const perf::OwnRuns own = keep("gpt,30,4096,32,1024,8,1,2,3,96,3.5\n");
  EXPECT_EQ(own.engine, "megatron");
  EXPECT_EQ(own.tuned, 0.5);
  const std::vector<perf::PublishedRun> runs = perf::runs_of(own, m, chip);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].dp, 4);
  EXPECT_EQ(runs[0].step_s, 3.5);
  EXPECT_EQ(runs[0].gpu, &chip);
  const auto refused = [&](const auto& what, const std::string& word) {
    try {
      what();
      FAIL() << word;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
  };
  const perf::Machine other = perf::load_machine(source_dir() + "/configs/machines/dgx-h100.yaml");
  refused([&] { perf::load_own_runs(folder / "fit.json", other); }, "machine");
  refused([&] { perf::load_own_runs(folder / "mine.csv", m); }, "mine.csv");
  refused([&] { perf::runs_of(keep("gpt,30,4096,32,1024,8,3,2,3,96,3.5\n"), m, chip); }, "line 2");
  refused([&] { perf::runs_of(keep("gpt,30,4096,32,1024,8,1,2,,96,3.5\n"), m, chip); }, "micro_batch");
  refused([&] { perf::runs_of(keep(""), m, chip); }, "mine.csv");
}

// Cells of complete rows are blanked: the true run is among the candidates, and the interval over all is
// wider.
TEST(OpenRuns, HoldTheRunThatItWas) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const perf::EngineModel model(tables_without("aleph-layouts"), nullptr);
  std::vector<std::unique_ptr<perf::Sample>> owned;
  perf::Samples others;
  for (const perf::PublishedTable& t : tables())
    for (const perf::PublishedRun& r : t.runs)
      if (r.campaign != "aleph-layouts" && owned.size() % 7 == 0) {
        owned.push_back(std::make_unique<perf::Sample>(perf::sample_of(r)));
        others.push_back(owned.back().get());
      } else {
        owned.push_back(nullptr);
      }
  const perf::Choices choices(others);
  const CsvTable csv = read_csv(kPublished + "aleph_alpha_layouts.csv");
  size_t inside = 0, rows = 0;
  double wider = 0;
  for (int i = 0; i < 12; ++i) {
    const CsvRow& row = csv.rows[random() % csv.rows.size()];
    const perf::PublishedRun was = perf::run_from(row, "t");
    const perf::OpenRun open =
        perf::open_run(row.with({{"micro_batch", ""}, {"tp", ""}, {"pp", ""}, {"dp", ""}}), "t", nullptr);
    EXPECT_EQ(open.missing.size(), 3u);
    const std::vector<double> w = choices.layouts(open);
    EXPECT_NEAR(std::accumulate(w.begin(), w.end(), 0.0), 1, 1e-9);
    EXPECT_TRUE(std::any_of(open.candidates.begin(), open.candidates.end(), [&](const perf::PublishedRun& r) {
      return r.specification() == was.specification();
    })) << was.id;
    const perf::Estimated e =
        perf::over_readings(choices.readings(open, false), [&](const perf::PublishedRun& r) {
          const perf::Estimated s = model.predict(r).step;
          return perf::Estimated{s.value / r.step_s, s.lower / r.step_s, s.upper / r.step_s};
        }).of;
    const perf::Estimated exact = model.predict(was).step;
    wider += std::log(e.upper / e.lower) / std::log(exact.upper / exact.lower) / 12;
    inside += e.lower <= 1 && 1 <= e.upper ? 1 : 0;
    ++rows;
  }
  EXPECT_GT(wider, 1.0);
  EXPECT_GE(inside, rows / 2);  // 80 % are expected; of 12, at least 6 with 99.6 %
}

// Rows without a net, GPUs or time, or without a model, are refused; open inputs are not.
TEST(OpenRuns, ShippedTablesRefuseNothingForWhatIsOpen) {
  size_t open = 0;
  for (const perf::PublishedTable& t : tables()) {
    open += t.open.size();
    for (const auto& [why, rows] : t.refused)
      for (const char* word :
           {"micro-batch", "batch size", "parallel size", "number of layers", "heads", "length"})
        EXPECT_EQ(why.find(word), std::string::npos) << t.name << ": " << rows << " rows, " << why;
  }
  EXPECT_GE(open, 70u);
  const std::string head = "arch,model_name,gpus,gpu_type,tokens_per_s_per_gpu\n";
  const auto read = [&](const std::string& row) {
    return perf::published_from(parse_csv(head + row, "t.csv"));
  };
  const perf::PublishedTable known = read("llama,Llama-2-7B,64,H100,9000\n");
  ASSERT_EQ(known.open.size(), 1u);
  EXPECT_EQ(known.open[0].candidates[0].layers, 32);
  EXPECT_EQ(read("llama,nobody's,64,H100,9000\n").refused_rows(), 1);
  EXPECT_EQ(read("llama,Llama-2-7B,,H100,9000\n").refused_rows(), 1);
  EXPECT_EQ(read("llama,Llama-2-7B,64,H100,\n").refused_rows(), 1);
}

TEST(CampaignsOut, AFewRowsOfThemTellOfTheRest) {
  const perf::CampaignsOut none = perf::leave_campaigns_out(perf::kStepSeconds, tables(), tables());
  const perf::CampaignsOut ten = perf::leave_campaigns_out(perf::kStepSeconds, tables(), tables(), 10);
  EXPECT_LT(ten.median_mape, 0.085);
  EXPECT_LT(ten.width, none.width);
  EXPECT_GE(ten.campaigns.size(), 8u);
  for (const perf::CampaignScore& c : ten.campaigns) EXPECT_NE(c.campaign, "misc-small") << "has nine rows";
}

}  // namespace
}  // namespace isobar::engine_tests
