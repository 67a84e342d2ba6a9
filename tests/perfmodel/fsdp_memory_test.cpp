// What torchtitan's FSDP2 takes on the fullest moment of a step: Isobar's account beside PyTorch's own tracker
// (bench/peers/fsdp_memory.py, which made tests/golden/fsdp_memory.csv; fake tensors, no GPU).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "model/base/csv_table.h"
#include "perfmodel/score/engine_model.h"
#include "perfmodel/score/memory_model.h"
#include "perfmodel/score/published_spec.h"
#include "tests/paths.h"

namespace isobar {
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

/// A row of the table as torchtitan would be asked for it.
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
  habits.norms_apart = row.text("norm") == "parts";
  return run_of(load_run_spec(source_dir() + "/configs/models/" + net->config, set), m, chip, habits);
}

TEST(FsdpMemory, IsWhatPyTorchsOwnTrackerCounts) {
  const CsvTable golden = read_csv(source_dir() + "/tests/golden/fsdp_memory.csv");
  ASSERT_GE(golden.rows.size(), 80u);
  const Machine m = load_machine(source_dir() + "/configs/machines/dgx-h100.yaml");
  const ChipSpec chip = chip_of(m);
  const EngineModel model = EngineModel::shipped(&engine_named("torchtitan"));
  MemoryPrices counted = spec_memory_prices();
  counted[static_cast<size_t>(MemoryPrice::fragments)] = 1;
  counted[static_cast<size_t>(MemoryPrice::runtime)] = 0;
  double most = 0, sum = 0, most_said = 0, sum_said = 0;
  for (const CsvRow& row : golden.rows) {
    const PublishedRun r = run_of_row(row, m, chip);
    PublishedRun old = r;
    old.habits.fsdp2 = false;
    const double peak = row.number("peak_bytes");
    const double ours = peak_bytes(count_memory(r), counted) / peak - 1, said = model.predict(r).memory.value / peak - 1;
    std::printf("%s %s r%s s%s b%s %s reshard%s %s %s: %.2f GiB, account %+.1f %%, said %+.1f %%; before %+.1f %%\n",
                row.text("net").c_str(), row.text("layers").c_str(), row.text("ranks").c_str(),
                row.text("seq").c_str(), row.text("batch").c_str(), row.text("recompute").c_str(),
                row.text("reshard").c_str(), row.text("units").c_str(), row.text("norm").c_str(),
                peak / 1073741824, 100 * ours, 100 * said, 100 * (model.predict(old).memory.value / peak - 1));
    most = std::max(most, std::abs(ours));
    sum += std::abs(ours);
    most_said = std::max(most_said, std::abs(said));
    sum_said += std::abs(said);
  }
  std::printf("account: mean %.1f most %.1f; said: mean %.1f most %.1f\n", 100 * sum / golden.rows.size(), 100 * most,
              100 * sum_said / golden.rows.size(), 100 * most_said);
}

}  // namespace
}  // namespace isobar
