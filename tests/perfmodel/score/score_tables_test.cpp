// Published tables: every row is used or refused with a reason, whatever its cells hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "model/base/error.h"
#include "perfmodel/machine/shipped.h"
#include "perfmodel/score/counts/collective_model.h"
#include "perfmodel/score/scoreboard/referee.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

const std::string kTables = source_dir() + "/configs/published/";

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

TEST(Csv, WhatSpreadsheetsWriteIsReadOrNamed) {
  const auto refusal = [](const std::string& text) {
    try {
      parse_csv(text, "runs.csv");
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
    return std::string("nothing was refused");
  };
  EXPECT_NE(refusal("arch;gpus\nllama;8\n").find("semicolons"), std::string::npos);
  EXPECT_NE(refusal("arch\tgpus\nllama\t8\n").find("tabs"), std::string::npos);
  EXPECT_NE(refusal(std::string("\xFF\xFE", 2) + "a").find("UTF-16"), std::string::npos);
  const CsvTable t = parse_csv("arch, gpus \rllama,8\rgpt,16\r", "old.csv");
  ASSERT_EQ(t.rows.size(), 2u);
  EXPECT_EQ(t.rows[1].number("gpus"), 16);
}

// A cell that is no number, or disagrees with another of its row, is a reason; nothing is passed over.
TEST(PublishedTables, ARowsNumbersHaveToAgree) {
  const std::string columns =
      "arch,layers,hidden,heads,vocab,seq_len,gpus,gpu_type,dp,tp,pp,micro_batch,global_batch,flash_"
      "attention,"
      "metric_name,metric_value,metric_unit,memory_gb,step_time_s,tokens_per_s_per_gpu,samples_per_s,tflops_"
      "per_gpu\n";
  const std::string net = "llama,32,4096,32,32000,4096,64,H100,16,4,1,1,256,";
  const auto why = [&](const std::string& row) {
    const PublishedTable t = published_from(parse_csv(columns + row + "\n", "t.csv"));
    return t.refused.empty() ? std::string() : t.refused.begin()->first;
  };
  EXPECT_EQ(why(net + "y,,,,60,2,8192,128,430"), "");
  for (const auto& [cells, word] : std::map<std::string, std::string>{
           {"y,,,,60,2,819,,", "tokens_per_s_per_gpu"},
           {"y,,,,60,2,,12,", "samples_per_s"},
           {"y,,,,60,2,,,4300", "tflops_per_gpu"},
           {"y,,,,60,20000,,,", "check its unit"},
           {"y,,,,60,\"2,000\",,,", "step_time_s is no number ('2,000')"},
           {"y,,,,60,2 s,8192,,", "step_time_s is no number ('2 s')"},
           {"y,,,,60,-2,8192,,", "step_time_s is below 0"},
           {"y,,,,61440,2,,,", "memory_gb is more than the chip has (6.144e+04)"},
           {"yes,,,,60,2,,,", "flash_attention 'yes'"},
           {"y,step_time,0.1,min,60,,,,", "metric_unit of a step_time is 'min'"},
           {"y,mfu,0.452,,60,,,,", "metric_unit of an mfu"}})
    EXPECT_NE(why(net + cells).find(word), std::string::npos) << cells << ": " << why(net + cells);
  EXPECT_NE(why("llama,32.5,4096,32,32000,4096,64,H100,16,4,1,1,256,y,,,,60,2,,,").find("no whole number"),
            std::string::npos);
  EXPECT_NE(why("llama,32,4096,32,32000,4096,64,H100,1,64,1,1,256,y,,,,60,2,,,").find("do not divide by tp"),
            std::string::npos);
}

TEST(PublishedTables, ARowsNetLayoutAndMetricHaveToAgree) {
  const std::map<std::string, std::string> run = {{"arch", "gpt"},
                                                  {"layers", "24"},
                                                  {"hidden", "2304"},
                                                  {"heads", "24"},
                                                  {"seq_len", "2048"},
                                                  {"vocab", "51200"},
                                                  {"gpus", "32"},
                                                  {"gpu_type", "A100-SXM4-80GB"},
                                                  {"dp", "16"},
                                                  {"tp", "1"},
                                                  {"pp", "2"},
                                                  {"micro_batch", "8"},
                                                  {"global_batch", "512"},
                                                  {"precision", "bf16"},
                                                  {"step_time_s", "5"},
                                                  {"kv_heads", ""},
                                                  {"params_b", "1.7"},
                                                  {"vpp", ""},
                                                  {"zero_stage", ""},
                                                  {"ep", ""},
                                                  {"metric_name", ""},
                                                  {"metric_value", ""},
                                                  {"metric_unit", ""},
                                                  {"hfu_pct", ""},
                                                  {"attended_tokens", ""}};
  const auto why = [&](const std::map<std::string, std::string>& others) {
    auto cells = run;
    for (const auto& [column, cell] : others) cells[column] = cell;
    std::string columns, row;
    for (const auto& [column, cell] : cells) columns += "," + column, row += "," + cell;
    const PublishedTable t =
        published_from(parse_csv(columns.substr(1) + "\n" + row.substr(1) + "\n", "t.csv"));
    return t.refused.empty() ? std::string() : t.refused.begin()->first;
  };
  EXPECT_EQ(why({}), "");
  EXPECT_EQ(why({{"params_b", "1.3"}, {"vpp", "12"}, {"hfu_pct", "40"}}), "");
  EXPECT_EQ(why({{"metric_name", "step_time"}, {"metric_value", "5000"}, {"metric_unit", "ms"}}), "");
  const std::vector<std::pair<std::map<std::string, std::string>, std::string>> refused = {
      {{{"params_b", "1700"}}, "params_b"},
      {{{"params_b", "7"}}, "params_b"},
      {{{"kv_heads", "7"}}, "kv_heads"},
      {{{"heads", "23"}}, "head_dim is empty"},
      {{{"attended_tokens", "4096"}}, "attended_tokens"},
      {{{"global_batch", "576"}}, "micro-batches"},
      {{{"zero_stage", "7"}}, "zero_stage"},
      {{{"ep", "4"}}, "without experts"},
      {{{"vpp", "13"}}, "vpp"},
      {{{"precision", "fp8"}}, "no fp8"},
      {{{"hfu_pct", "0.4"}}, "hfu_pct"},
      {{{"metric_name", "step_time"}, {"metric_value", "50"}, {"metric_unit", "s"}}, "metric_value"},
      {{{"metric_name", "throughput_per_gpu"}, {"metric_value", "209715"}, {"metric_unit", "tokens/s/GPU"}},
       "metric_value"}};
  for (const auto& [cells, word] : refused)
    EXPECT_NE(why(cells).find(word), std::string::npos)
        << cells.begin()->first << " " << cells.begin()->second << ": " << why(cells);
}

TEST(PublishedTables, EveryRowIsUsedOrRefused) {
  for (const char* name :
       {"aleph_alpha_layouts", "aleph_alpha_layouts_oom", "nvidia_megatron_bridge", "nvidia_nemo",
        "zero_bubble_pp", "nersc_vit_era5", "megatron_sc21", "nanotron_ultrascale_failed"}) {
    const CsvTable csv = read_csv(kTables + name + ".csv");
    const PublishedTable t = published_from(csv);
    EXPECT_EQ(t.runs.size() + t.outcomes.size() + t.open.size() + static_cast<size_t>(t.refused_rows()),
              csv.rows.size())
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
    const CsvTable csv = read_csv(kTables + name + ".csv");
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
    const PublishedTable t = published_from(spoiled);
    EXPECT_EQ(t.runs.size() + t.outcomes.size() + t.open.size() + static_cast<size_t>(t.refused_rows()),
              spoiled.rows.size());
    const TableScore s = judge(t, {}, {});
    EXPECT_EQ(s.rows.size(), t.runs.size());
    for (const ScoredRow& r : s.rows) EXPECT_TRUE(std::isfinite(r.predicted) && r.predicted > 0) << r.id;
  }
}

// The table as text, with each cell changed by `change`.
template <class Change>
CsvTable rewritten(const CsvTable& csv, const Change& change) {
  std::string text;
  for (size_t k = 0; k < csv.columns.size(); ++k) text += (k ? "," : "") + csv.columns[k];
  for (const CsvRow& row : csv.rows) {
    text += "\n";
    for (size_t k = 0; k < csv.columns.size(); ++k)
      text += (k ? "," : "") + in_quotes(change(csv.columns[k], row.text(csv.columns[k])));
  }
  return parse_csv(text + "\n", csv.file);
}

TEST(PublishedTables, NothingIsReadOutOfProse) {
  for (const char* name : {"aleph_alpha_layouts", "aleph_alpha_layouts_oom", "bigscience_tr11_prequel",
                           "nvidia_megatron_bridge", "nvidia_nemo", "nersc_vit_era5", "zero_bubble_pp"}) {
    const CsvTable csv = read_csv(kTables + name + ".csv");
    const CsvTable silent = rewritten(csv, [](const std::string& column, const std::string& cell) {
      return column == "notes" || column == "framework" || column == "inter_node_link" ? "" : cell;
    });
    const PublishedTable noted = published_from(csv), mute = published_from(silent);
    EXPECT_EQ(noted.refused, mute.refused) << name;
    ASSERT_EQ(noted.runs.size(), mute.runs.size()) << name;
    for (size_t i = 0; i < noted.runs.size(); ++i) {
      const PublishedRun &a = noted.runs[i], &b = mute.runs[i];
      EXPECT_EQ(a.specification(), b.specification()) << a.id;
      EXPECT_EQ(a.campaign + a.section, b.campaign + b.section) << a.id;
      EXPECT_EQ(a.nic_rate, b.nic_rate) << a.id;
      EXPECT_EQ(a.attended, b.attended) << a.id;
    }
    EXPECT_EQ(noted.outcomes.size(), mute.outcomes.size()) << name;
  }
}

TEST(PublishedTables, FactsStandInColumns) {
  std::map<std::string, const PublishedRun*> runs;
  const auto of = [&](const char* name) {
    static std::vector<PublishedTable> kept;
    kept.reserve(8);
    kept.push_back(read_published(kTables + name + ".csv"));
    for (const PublishedRun& r : kept.back().runs) runs[r.id] = &r;
    for (const PublishedRun& r : kept.back().outcomes) runs[r.id] = &r;
  };
  of("aleph_alpha_layouts");
  of("nvidia_megatron_bridge");
  of("nersc_vit_era5");
  EXPECT_TRUE(runs.at("aleph-layouts-001")->rms_kernel);
  EXPECT_EQ(runs.at("aleph-layouts-001")->attention, AttentionKernel::flash2);
  EXPECT_EQ(runs.at("aleph-layouts-001")->zero, 1);
  EXPECT_EQ(runs.at("nv-megatron-bridge-005")->experts, 128);
  EXPECT_EQ(runs.at("nv-megatron-bridge-005")->top_k, 4);
  EXPECT_EQ(runs.at("nv-megatron-bridge-005")->head_dim, 64);
  EXPECT_EQ(runs.at("nv-megatron-bridge-005")->campaign, "Megatron-Core recipes");
  size_t efficient = 0;
  for (const auto& [id, r] : runs) {
    efficient += r->attention == AttentionKernel::memory_efficient;
    if (id.starts_with("nersc")) {
      EXPECT_EQ(r->nic_rate, 25e9) << id;
    }
  }
  EXPECT_GT(efficient, 0u);
}

TEST(PublishedTables, ACellThatSaysNothingKnownRefusesItsRowByTheColumnsName) {
  const CsvTable csv = read_csv(kTables + "zero_bubble_pp.csv");
  for (const char* column : {"schedule", "short_end_stages", "synchronised_optimizer", "recompute"}) {
    const PublishedTable t = published_from(rewritten(
        csv, [&](const std::string& c, const std::string& cell) { return c == column ? "maybe" : cell; }));
    EXPECT_TRUE(t.runs.empty()) << column;
    EXPECT_TRUE(std::any_of(t.refused.begin(), t.refused.end(), [&](const auto& r) {
      return r.first.find(column) != std::string::npos && r.first.find("maybe") != std::string::npos;
    })) << column;
  }
}

TEST(PublishedTables, AnAttentionKernelAgreesWithFlashAttention) {
  const CsvTable csv = read_csv(kTables + "maxtext.csv");
  const auto read = [&](const char* flash, const char* kernel) {
    return published_from(rewritten(csv, [&](const std::string& c, const std::string& cell) -> std::string {
      return c == "flash_attention" ? flash : c == "attention_kernel" ? kernel : cell;
    }));
  };
  const auto kernel_of = [&](const char* flash, const char* kernel) {
    return read(flash, kernel).runs.at(0).attention;
  };
  EXPECT_EQ(kernel_of("y", "fused"), AttentionKernel::flash2);  // cuDNN's fused attention
  EXPECT_EQ(kernel_of("n", "fused"), AttentionKernel::fused_softmax);
  EXPECT_EQ(kernel_of("unknown", "fused"), AttentionKernel::fused_softmax);
  EXPECT_EQ(kernel_of("y", "flash1"), AttentionKernel::flash1);
  for (const auto& [flash, kernel] : {std::pair{"y", "torch"}, {"n", "flash1"}, {"n", "flash2"}}) {
    const PublishedTable t = read(flash, kernel);
    EXPECT_TRUE(t.runs.empty()) << flash << " " << kernel;
    ASSERT_FALSE(t.refused.empty());
    EXPECT_NE(t.refused.begin()->first.find(std::string("'") + kernel + "' contradicts flash_attention"),
              std::string::npos)
        << t.refused.begin()->first;
  }
}

TEST(PublishedTables, UnknownMissingAndDoubledColumnsAreNamedWithTheFile) {
  const std::string row =
      "arch,layers,hidden,heads,seq_len,gpus,gpu_type,dp,tp,pp,micro_batch,global_batch,metric_name";
  const auto refusal = [](const std::string& head) -> std::string {
    try {
      published_from(parse_csv(head + "\n", "mine.csv"));
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(row), "");
  for (const auto& [head, name] : {std::pair<std::string, const char*>{row + ",headdim", "headdim"},
                                   {row.substr(5), "arch"},
                                   {row + ",notes,notes", "notes"}}) {
    const std::string what = refusal(head);
    EXPECT_NE(what.find("mine.csv: 'line 1, " + std::string(name) + "'"), std::string::npos) << what;
    EXPECT_NE(what.find(" -> "), std::string::npos) << what;
  }
}

TEST(PublishedTables, TablesOfOtherThingsAreRefused) {
  EXPECT_THROW(published_from(parse_csv("a,b\n1,2\n", "x.csv")), ConfigError);
  EXPECT_THROW(collectives_from(parse_csv("a,b\n1,2\n", "x.csv")), ConfigError);
}

TEST(Hardware, NamesOfTablesFindTheirChips) {
  EXPECT_EQ(chip_named("A100-80GB-SXM (Selene)")->name, "a100");
  EXPECT_EQ(chip_named("A100-80GB-PCIe")->name, "a100-pcie");
  EXPECT_TRUE(chip_named("A100-80GB-PCIe")->sockets);  // four cards under each
  EXPECT_FALSE(chip_named("A100-80GB-SXM")->sockets);
  EXPECT_EQ(chip_named("A100-40GB")->name, "a100-40gb");
  EXPECT_EQ(chip_named("NVIDIA GB200 NVL72")->name, "gb200");
  EXPECT_EQ(chip_named("MI250X GCD")->name, "mi250x");
  EXPECT_EQ(chip_named("A100-80GB", "PCIe 4.0")->name, "a100-pcie");
  EXPECT_EQ(chip_named("GB300")->name, "gb300");
  EXPECT_EQ(chip_named("B300")->name, "b300");
  EXPECT_EQ(chip_named("V100-32GB-SXM (DGX-2)")->name, "v100");
  EXPECT_EQ(precision_named("fp8-current-scaling"), Precision::fp8);
  EXPECT_EQ(precision_named("nvfp4"), Precision::fp4);
  EXPECT_EQ(precision_named("abacus"), std::nullopt);
}

TEST(Hardware, AChipIsWhatItsWholeNameSays) {
  EXPECT_EQ(chip_named("GH200")->memory_bytes, 96e9);
  EXPECT_EQ(chip_named("NVIDIA GH200 144 GB HBM3e")->memory_bytes, 144e9);
  EXPECT_EQ(chip_named("GH200 96GB (Alps)")->domain, 4);
  EXPECT_EQ(chip_named("AMD Instinct MI325X OAM")->memory_bytes, 256e9);
  EXPECT_EQ(chip_named("MI355X")->fp4, 1.0066e16);
  EXPECT_EQ(chip_named("H20-96GB")->half, 148e12);
  EXPECT_EQ(chip_named("RTX 6000 Ada")->memory_rate, 960e9);
  EXPECT_EQ(chip_named("L40S-48GB")->link_rate, 32e9);
  EXPECT_EQ(chip_named("TPU v5p")->half, 459e12);
  EXPECT_EQ(chip_named("Google TPU v6e")->domain, 256);
  EXPECT_EQ(chip_named("Gaudi2")->name, chip_named("Intel Gaudi 2 (HLS)")->name);
  EXPECT_EQ(chip_named("Gaudi-3")->nic_rate, 75e9);
  EXPECT_EQ(chip_named("H100 PCIe")->half, 756e12);
  EXPECT_EQ(chip_named("B200-192GB")->name, "b200");
  EXPECT_EQ(chip_named("V100-16GB")->memory_bytes, 16e9);
  for (const char* unknown : {"abacus", "", "XH200", "H100-64GB", "H100 NVL", "A100X", "MI250"})
    EXPECT_EQ(chip_named(unknown), nullptr) << unknown;
  // A machine file's own name of the chip is known, too.
  for (const std::string& file : files_in(source_dir() + "/configs/machines", ".yaml")) {
    const Machine m = load_machine(file);
    if (m.accelerator && !m.accelerator->called.empty())
      EXPECT_NE(chip_named(m.accelerator->name), nullptr) << file;
  }
  const std::string why = unknown_chip("GH2000");
  EXPECT_NE(why.find("GH2000"), std::string::npos) << why;
  EXPECT_NE(why.find("GH200"), std::string::npos) << why;
}

TEST(Hardware, UnknownNamesAreKeptWithTheirLines) {
  const PublishedTable t =
      published_from(parse_csv("arch,layers,hidden,heads,seq_len,gpus,gpu_type,tp,pp,micro_batch,global_"
                               "batch,step_time_s,metric_name\n"
                               "gpt,24,2048,16,2048,8,A100,1,1,4,256,5,\n"
                               "gpt,24,2048,16,2048,8,A1000,1,1,4,256,5,\n"
                               "gpt,24,2048,16,2048,8,A1000,,1,4,256,5,\n",
                               "mine.csv"));
  EXPECT_EQ(t.runs.size(), 1u);
  EXPECT_EQ(t.refused_rows(), 2);
  EXPECT_EQ(t.file, "mine.csv");
  EXPECT_EQ(t.unknown_chips, (std::map<std::string, int>{{"A1000", 3}}));
}

// Scoreboard and predictor read chips from the same files.
TEST(Hardware, ChipsAreThoseOfTheMachineFiles) {
  const Machine m = load_machine(source_dir() + "/configs/machines/gb200-nvl72.yaml");
  const ChipSpec& c = *chip_named("GB200");
  EXPECT_EQ(c.half, m.peaks.at("bf16").value);
  EXPECT_EQ(c.fp4, 1e16);
  EXPECT_EQ(c.memory_bytes, static_cast<double>(m.accelerator->reported_bytes));
  EXPECT_EQ(c.link_rate, m.accelerator->host.of_rank());
  EXPECT_EQ(c.host_rate, 225e9);
  EXPECT_EQ(c.domain, 72);
  EXPECT_NEAR(c.matmul, 0.729, 5e-4);  // measured by stas00/ml-engineering
  EXPECT_NEAR(c.matmul_low, 0.723, 5e-4);
  EXPECT_EQ(chip_named("A100")->peak(Precision::fp4), chip_named("A100")->half);
  EXPECT_NEAR(chip_named("A100-PCIE")->reached(Precision::fp8), 0.811 * 312e12, 1e11);
  EXPECT_EQ(chip_named("V100")->peak(Precision::tf32), 15.7e12);
}

}  // namespace
}  // namespace isobar::perf
