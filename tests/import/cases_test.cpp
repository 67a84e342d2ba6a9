// Small files of other programs that were once misread (tests/fixtures/cases): each gives the right result,
// or an error that names the place.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <regex>

#include "bench/import/import.h"
#include "bench/import/training_log.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "perfmodel/machine/machine.h"
#include "tests/engine/command.h"

namespace isobar::foreign {
namespace {

std::string case_file(const std::string& name) {
  return source_dir() + "/tests/fixtures/cases/" + name;
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "nothing was refused";
}

void says(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words)
    EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
}

class Cases : public testing::Test {
 protected:
  std::string config(const std::string& text) {
    write_atomically(folder_ / "run.yaml", text);
    return folder_ / "run.yaml";
  }
  std::string llama(const std::string& rest) {
    return config(
        "net: {kind: llama, embed_dim: 8192, depth: 80, num_heads: 64, num_kv_heads: 8, ffn_dim: 28672, "
        "seq_length: 8192, vocab_size: 32000}\n" +
        rest);
  }
  std::string vit() {
    return config("net: {embed_dim: 64, depth: 2, num_heads: 4}\ntrain: {global_batch: 16}\n");
  }
  records::RunRecord traced(const std::string& name) {
    import_kineto({case_file(name)}, vit(), folder_ / "run");
    return records::load_runs(folder_ / "run").at(0);
  }
  Folder folder_;
};

TEST_F(Cases, MlperfBlocksThatBeginInStepsAndEndInSamples) {
  const std::string run = llama("train: {global_batch: 8}\nlayout: {dp: 2, tp: 4}\npolicy: {amp: bf16}\n");
  const LoggedRun r = read_training_log({case_file("mlperf_counts_in_two_units.log")}, run);
  for (const double s : r.steps) EXPECT_NEAR(s, 12.3, 1e-6);  // clocks of milliseconds since 1970
  ASSERT_EQ(r.notes.size(), 1u);
  says(r.notes[0], {"steps", "samples"});
}

TEST_F(Cases, TorchtitansValidationIsNoTraining) {
  const LoggedRun r = read_training_log({case_file("torchtitan_validates.log")}, "");
  EXPECT_NEAR(r.seconds(), 8 * 8192 / (6500.0 * 8), 1e-9);
  EXPECT_EQ(r.steps.size(), 6u);
  EXPECT_EQ(r.cells.at("recompute"), "selective");
}

TEST_F(Cases, TorchtitansMemoryBudgetLeavesRecomputationOpen) {
  const std::string file = case_file("torchtitan_memory_budget.log");
  says(refusal([&] { read_training_log({file}, ""); }), {"'recompute'", "MemoryBudgetAC", "--config"});
  const std::string run = config(
      "net: {kind: llama, embed_dim: 4096, depth: 32, num_heads: 32, num_kv_heads: 8, ffn_dim: 14336, "
      "seq_length: 8192, vocab_size: 128256}\ntrain: {global_batch: 8}\nlayout: {dp: 8}\n"
      "policy: {amp: bf16, recompute: full, zero: 3}\n");
  EXPECT_EQ(read_training_log({file}, run).cells.at("recompute"), "full");
}

TEST_F(Cases, MegatronsLinesInSecondsAreMegatrons) {
  const std::string file = case_file("megatron_seconds.log");
  says(refusal([&] { read_training_log({file}, ""); }), {"Megatron-LM", "--config"});
  const std::string run = config(
      "net: {kind: gpt, embed_dim: 5120, depth: 40, num_heads: 40, seq_length: 2048, vocab_size: 50304}\n"
      "train: {global_batch: 64}\nlayout: {dp: 8, tp: 4}\npolicy: {amp: bf16}\n");
  const LoggedRun r = read_training_log({file}, run);
  EXPECT_EQ(r.steps, (std::vector<double>{3.2, 3.2, 3.2, 3.2}));
  // A configuration with another batch contradicts the line's own rate.
  const std::string other = config(
      "net: {kind: gpt, embed_dim: 5120, depth: 40, num_heads: 40, seq_length: 2048, vocab_size: 50304}\n"
      "train: {global_batch: 128}\nlayout: {dp: 8, tp: 4}\npolicy: {amp: bf16}\n");
  says(refusal([&] { read_training_log({file}, other); }), {"global_batch", "64", "128"});
}

TEST_F(Cases, NcclRowsBehindSrunLabel) {
  const Collectives c = read_nccl_tests(case_file("nccl_srun_label.all_reduce.log"), "");
  ASSERT_EQ(c.rows.size(), 3u);
  EXPECT_EQ(c.rows[0].ranks, 8);
  EXPECT_EQ(c.rows[0].hosts, 1);
  EXPECT_EQ(c.rows[2].bytes, 268435456);
  EXPECT_DOUBLE_EQ(c.rows[2].seconds, 2e-3);
  EXPECT_EQ(c.device, "NVIDIA A100-SXM4-80GB");
}

TEST_F(Cases, TwoNcclProgramsThatNeverMet) {
  says(refusal([] { read_nccl_tests(case_file("nccl_two_runs_of_one_rank.all_reduce.log"), ""); }),
       {"'Rank': 0 is listed twice", "node00", "node01"});
}

TEST_F(Cases, ATracesLastMarkIsAStub) {
  const records::RunRecord r = traced("trace_last_mark_is_a_stub.json");
  ASSERT_EQ(r.steps.size(), 1u);
  EXPECT_NEAR(r.step_s.median, 9.3e-3, 1e-12);
  EXPECT_NEAR(r.step_s.p10, 9.3e-3, 1e-12);
}

TEST_F(Cases, ATracesHostRunsAheadOfItsKernels) {
  const records::RunRecord r = traced("trace_host_runs_ahead.json");
  EXPECT_NEAR(r.step_s.median, 95.7e-3, 1e-9);
  std::vector<std::string> notes;
  const std::vector<double> steps = kineto_steps({case_file("trace_host_runs_ahead.json")}, notes);
  EXPECT_NEAR(steps.back(), 95.7e-3, 1e-9);
  ASSERT_EQ(notes.size(), 1u);
  says(notes[0], {"95.7 ms", "72 ms"});
}

TEST_F(Cases, ATraceWithQuotesInItsNames) {
  const std::string error = refusal([&] { traced("trace_unescaped_quotes.json"); });
  says(error, {"is no JSON at byte 402", "a known fault of PyTorch's exporter", "device"});
  EXPECT_EQ(read_file(case_file("trace_unescaped_quotes.json")).substr(401, 6), "device");
}

TEST_F(Cases, AZippedTrace) {
  EXPECT_NEAR(traced("trace_zipped.json.gz").step_s.median, 0.9e-3, 1e-12);
  EXPECT_EQ(traced("trace_zipped.json.gz").steps.size(), 3u);
  const std::string whole = read_file(case_file("trace_zipped.json.gz"));
  for (const size_t n : {whole.size() - 1, whole.size() / 2, size_t{12}}) {  // truncated: an error
    write_atomically(folder_ / "cut.gz", whole.substr(0, n));
    says(refusal([&] { import_kineto({folder_ / "cut.gz"}, vit(), folder_ / "none"); }), {"cut.gz", "gzip"});
  }
}

// The error lists the known kinds of logs, and does not blame an option.
TEST_F(Cases, AFileOfNoKindSaysWhatWasLookedFor) {
  write_atomically(folder_ / "notes.txt", "nothing of the kind\n");
  write_atomically(folder_ / "torn.json", "{\"a\": [1, 2,}");
  const std::string command = build_dir() + "/isobar";
  const Ended notes = Child({command, "import", folder_ / "notes.txt", "--config", vit()}).wait();
  EXPECT_EQ(notes.code, 2);
  says(notes.text, {"notes.txt", "elapsed time per iteration", "train_step_timing", ":::MLLOG",
                    "wps:", "traceEvents", "algbw", "safetensors"});
  const Ended torn = Child({command, "import", folder_ / "torn.json"}).wait();
  EXPECT_EQ(torn.code, 2);
  says(torn.text, {"torn.json", "no JSON at byte 13"});
}

}  // namespace
}  // namespace isobar::foreign
