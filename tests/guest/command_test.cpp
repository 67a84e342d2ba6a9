// Words of run.command become the run's settings, as a shell reads them; a key without a word is refused.
#include "bench/guest/command.h"

#include <gtest/gtest.h>

#include "model/base/error.h"
#include "model/base/validate.h"
#include "tests/paths.h"

namespace isobar {
namespace {

RunSpec with_command(const std::string& command, std::vector<std::string> set = {}) {
  RunSpec s = load_run_spec(source_dir() + "/configs/models/vit-tiny.yaml", set);
  s.run.command = command;
  return s;
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(GuestCommand, WordsAreTheRunsSettings) {
  const RunSpec s = with_command(
      "torchrun --nproc-per-node {ranks_on_host} train.py --mbs {policy.micro_batch} --dp={layout.dp} {{x}} "
      "--out {out}",
      {"layout.dp=4", "policy.micro_batch=2", "run.out=runs/it's #1"});
  EXPECT_EQ(guest_command(s, 2),
            "torchrun --nproc-per-node 2 train.py --mbs 2 --dp=4 {x} --out 'runs/it'\\''s #1'");
  EXPECT_EQ(words_of_command(s),
            (std::set<std::string>{"ranks_on_host", "policy.micro_batch", "layout.dp", "out"}));
}

TEST(GuestCommand, AWordThatIsNoKeyAndAnOpenBraceAreRefused) {
  const std::string unknown = refusal([] { guest_command(with_command("a {policy.micro_bach}"), 1); });
  EXPECT_NE(unknown.find("{policy.micro_bach}"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("policy.micro_batch"), std::string::npos) << unknown;
  const std::string open = refusal([] { guest_command(with_command("a {ranks"), 1); });
  EXPECT_NE(open.find("without }"), std::string::npos) << open;
}

TEST(GuestCommand, IsRefusedInJobsThatStartTheRanks) {
  const RunSpec s = with_command("a {ranks}");
  EXPECT_NO_THROW(refuse_in_jobs(s, "local"));
  EXPECT_NO_THROW(refuse_in_jobs(with_command(""), "slurm"));
  const std::string said = refusal([&] { refuse_in_jobs(s, "slurm"); });
  EXPECT_NE(said.find("--launcher slurm"), std::string::npos) << said;
}

TEST(GuestCommand, AVariedKeyMustReachTheCommand) {
  const RunSpec s = with_command("a --n {ranks} --mbs {policy.micro_batch}");
  EXPECT_NO_THROW(require_word_for("policy.micro_batch", s, "sweep.yaml"));
  EXPECT_NO_THROW(require_word_for("layout.dp", s, "sweep.yaml"));
  EXPECT_NO_THROW(require_word_for("run.out", s, "sweep.yaml"));
  for (const char* key : {"layout.tp", "policy.amp", "train.steps", "data.workers"}) {
    const std::string said = refusal([&] { require_word_for(key, s, "sweep.yaml"); });
    EXPECT_NE(said.find(key), std::string::npos) << said;
    EXPECT_NE(said.find("sweep.yaml"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace isobar
