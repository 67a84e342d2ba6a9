// Published tables: every row is used or refused with a reason, whatever stands in its cells.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#include "model/base/error.h"
#include "perfmodel/score/collective_model.h"
#include "perfmodel/score/referee.h"

namespace isobar {
namespace {

const std::string kShipped = ISOBAR_SOURCE_DIR "/configs/published/";

std::string in_quotes(const std::string& cell) {
  std::string out = "\"";
  for (char c : cell) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

TEST(Csv, RandomCellsComeBackAsTheyWere) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string alphabet = "ab,\"\n\r ;1.";
  std::vector<std::vector<std::string>> cells(20, std::vector<std::string>(4));
  std::string text = "a,b,c,d\n";
  for (auto& row : cells) {
    for (size_t k = 0; k < row.size(); ++k) {
      for (size_t n = random() % 6; n > 0; --n) row[k] += alphabet[random() % alphabet.size()];
      text += (k ? "," : "") + in_quotes(row[k]);
    }
    text += random() % 2 ? "\n" : "\r\n";
  }
  const CsvTable t = parse_csv(text, "random");
  ASSERT_EQ(t.rows.size(), cells.size());
  for (size_t i = 0; i < cells.size(); ++i)
    for (size_t k = 0; k < 4; ++k) EXPECT_EQ(t.rows[i].text(t.columns[k]), cells[i][k]);
}

TEST(Csv, BadTablesNameTheLine) {
  EXPECT_THROW(parse_csv("", "empty"), ConfigError);
  try {
    parse_csv("a,b\n1,2\n3\n", "short.csv");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("line 3"), std::string::npos) << e.what();
  }
  EXPECT_THROW(parse_csv("a,b\n1,\"2\n", "open.csv"), ConfigError);
  EXPECT_TRUE(std::isnan(parse_csv("a\n12 GB\n", "text").rows[0].number("a")));
  EXPECT_EQ(parse_csv("a\n1e3\n", "number").rows[0].number("a"), 1000);
}

TEST(PublishedTables, EveryRowIsUsedOrRefused) {
  for (const char* name :
       {"aleph_alpha_layouts", "aleph_alpha_layouts_oom", "nvidia_megatron_bridge", "nvidia_nemo",
        "zero_bubble_pp", "nersc_vit_era5", "megatron_sc21", "nanotron_ultrascale_failed"}) {
    const CsvTable csv = read_csv(kShipped + name + ".csv");
    const PublishedTable t = published_from(csv);
    EXPECT_EQ(t.runs.size() + t.outcomes.size() + static_cast<size_t>(t.refused_rows()), csv.rows.size())
        << name;
    for (const PublishedRun& r : t.runs) EXPECT_GT(r.step_s, 0) << r.id;
  }
}

TEST(PublishedTables, SpoiledCellsNeverEndTheProgram) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::vector<std::string> poison = {"",  "0",   "-3",    "nan", "1e308", "x",
                                           "7", "0.5", "GB999", "fp3", "12;3"};
  for (const char* name : {"vtrain_ground_truth", "nvidia_megatron_bridge", "zero_bubble_pp"}) {
    const CsvTable csv = read_csv(kShipped + name + ".csv");
    std::string text;
    for (size_t k = 0; k < csv.columns.size(); ++k) text += (k ? "," : "") + csv.columns[k];
    size_t rows = 0;
    for (const CsvRow& row : csv.rows) {
      if (++rows > 100) break;
      text += "\n";
      for (size_t k = 0; k < csv.columns.size(); ++k)
        text += (k ? "," : "") +
                in_quotes(random() % 12 == 0 ? poison[random() % poison.size()] : row.text(csv.columns[k]));
    }
    const CsvTable spoiled = parse_csv(text + "\n", name);
    for (bool experts : {false, true}) {
      const PublishedTable t = published_from(spoiled, experts);
      EXPECT_EQ(t.runs.size() + t.outcomes.size() + static_cast<size_t>(t.refused_rows()),
                spoiled.rows.size());
      const TableScore s = judge(t, {}, {});
      EXPECT_EQ(s.rows.size(), t.runs.size());
      for (const ScoredRow& r : s.rows) EXPECT_TRUE(std::isfinite(r.predicted) && r.predicted > 0) << r.id;
    }
  }
}

TEST(PublishedTables, TablesOfOtherThingsAreRefused) {
  EXPECT_THROW(published_from(parse_csv("a,b\n1,2\n", "x.csv")), ConfigError);
  EXPECT_THROW(collectives_from(parse_csv("a,b\n1,2\n", "x.csv")), ConfigError);
}

TEST(Hardware, NamesOfTablesFindTheirChips) {
  EXPECT_STREQ(chip_named("A100-80GB-SXM (Selene)")->name, "a100");
  EXPECT_STREQ(chip_named("A100-80GB-PCIe")->name, "a100-pcie");
  EXPECT_STREQ(chip_named("A100-40GB")->name, "a100-40");
  EXPECT_STREQ(chip_named("NVIDIA GB200 NVL72")->name, "gb200");
  EXPECT_STREQ(chip_named("MI250X GCD")->name, "mi250x");
  EXPECT_EQ(chip_named("abacus"), nullptr);
  EXPECT_EQ(precision_named("fp8-current-scaling"), Precision::fp8);
  EXPECT_EQ(precision_named("nvfp4"), Precision::fp4);
  EXPECT_EQ(precision_named("abacus"), std::nullopt);
}

}  // namespace
}  // namespace isobar
