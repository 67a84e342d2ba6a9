// Peak memory of torchtitan's FSDP2 in a step: Isobar's account against PyTorch's own tracker
// (bench/peers/fsdp_memory.py, which made tests/golden/fsdp_memory.csv; fake tensors, no GPU).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/base/text/csv_table.h"
#include "perfmodel/score/counts/fsdp_memory.h"
#include "perfmodel/score/engine_model.h"
#include "perfmodel/score/published/published_spec.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

struct Net {
  const char *name, *config;
  std::vector<std::string> set;
};
const std::vector<Net> kNets = {
    {"llama-1b", "llama3-8b.yaml", {"net.embed_dim=2048", "net.ffn_dim=8192"}},
    {"llama-8b", "llama3-8b.yaml", {}},
    {"llama-70b", "llama3-70b.yaml", {}},
};

/// A row of the table as a run of torchtitan.
PublishedRun run_of_row(const CsvRow& row, const Machine& m, const ChipSpec& chip) {
  const auto net =
      std::find_if(kNets.begin(), kNets.end(), [&](const Net& n) { return row.text("net") == n.name; });
  const std::string ranks = row.text("ranks"), layers = row.text("layers"), how = row.text("recompute");
  std::vector<std::string> set = net->set;
  const auto number = [](double v) { return std::to_string(std::llround(v)); };
  for (const std::string& s :
       {"net.depth=" + layers, "net.seq_length=" + row.text("seq"), "layout.dp=" + ranks,
        std::string("layout.tp=1"), std::string("layout.cp=1"), std::string("layout.pp=1"),
        std::string("layout.vpp=1"), std::string("policy.schedule=1f1b"), std::string("policy.amp=bf16"),
        std::string("policy.sequence_parallel=false"), "policy.micro_batch=" + row.text("batch"),
        "train.global_batch=" + number(row.number("ranks") * row.number("batch")),
        std::string(row.text("reshard") == "1" ? "policy.zero=3" : "policy.zero=2")})
    set.push_back(s);
  if (how == "layer:2") {
    set.push_back("policy.recompute=full");
    set.push_back("policy.recompute_method=block");
    set.push_back("policy.recompute_num_layers=" + number(row.number("layers") / 2));
  } else {
    set.push_back("policy.recompute=" + (how == "op" ? "selective" : how));
  }
  Habits habits = engine_named("torchtitan").habits;
  habits.ends_in_root = row.text("units") == "blocks";
  habits.norms_apart = row.text("norm") == "parts";
  return run_of(load_run_spec(source_dir() + "/configs/models/" + net->config, set), m, chip, habits);
}

struct Table {
  CsvTable csv = read_csv(source_dir() + "/tests/golden/fsdp_memory.csv");
  Machine machine = load_machine(source_dir() + "/configs/machines/dgx-h100.yaml");
  ChipSpec chip = chip_of(machine);
};

std::string name_of(const CsvRow& row) {
  std::string out;
  for (const char* c : {"net", "layers", "ranks", "seq", "batch", "recompute", "reshard", "units", "norm"})
    out += (out.empty() ? "" : " ") + row.text(c);
  return out;
}

double mean_of(const std::vector<double>& v) {
  double sum = 0;
  for (double x : v) sum += std::abs(x) / static_cast<double>(v.size());
  return sum;
}

std::string listed(const std::vector<double>& v) {
  double most = 0;
  for (double x : v) most = std::max(most, std::abs(x));
  return std::to_string(100 * mean_of(v)) + " % in the mean, at most " + std::to_string(100 * most);
}

TEST(FsdpMemory, IsWhatPyTorchsOwnTrackerCounts) {
  const Table t;
  ASSERT_GE(t.csv.rows.size(), 75u);
  std::vector<double> allocated, reserved;
  for (const CsvRow& row : t.csv.rows) {
    const PublishedRun r = run_of_row(row, t.machine, t.chip);
    const FsdpMemory m = fsdp_memory(r, {r.layers, 1, true, true});
    allocated.push_back((m.states + m.fullest) / row.number("peak_bytes") - 1);
    reserved.push_back((m.states + m.reserved) / row.number("reserved_bytes") - 1);
    EXPECT_NEAR(allocated.back(), 0, 0.05) << name_of(row);
    EXPECT_NEAR(reserved.back(), 0, 0.10) << name_of(row);
  }
  RecordProperty("allocated", listed(allocated));
  RecordProperty("reserved", listed(reserved));
  EXPECT_LE(mean_of(allocated), 0.01);
  EXPECT_LE(mean_of(reserved), 0.04);
}

// Including the runtime, which the replay lacks: the result of `isobar predict --engine torchtitan`.
TEST(FsdpMemory, IsWhatPredictSays) {
  const Table t;
  const EngineModel model = EngineModel::shipped(&engine_named("torchtitan"));
  std::vector<double> said, before, before_allocated;
  for (const CsvRow& row : t.csv.rows) {
    PublishedRun r = run_of_row(row, t.machine, t.chip);
    const double read = row.number("reserved_bytes");
    said.push_back(model.predict(r).memory.value / read - 1);
    r.habits.fully_sharded = false;  // by the closed form of other engines
    before.push_back(model.predict(r).memory.value / read - 1);
    before_allocated.push_back(model.predict(r).memory.value / row.number("peak_bytes") - 1);
  }
  RecordProperty("said", listed(said));
  RecordProperty("before", listed(before));
  RecordProperty("before_allocated", listed(before_allocated));
  EXPECT_LE(mean_of(said), 0.055);
}

}  // namespace
}  // namespace isobar::perf
