// Words of run.command become the run's settings, as a shell reads them; a key without a word is refused.
#include "bench/guest/command.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <thread>

#include "model/base/error.h"
#include "model/base/spec/validate.h"
#include "perfmodel/ask/choose/emit.h"
#include "tests/engine/command.h"
#include "tests/paths.h"

namespace isobar::guest {
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
  EXPECT_EQ(guest_command(s, {.names = {"n1", "n2"}}),
            "torchrun --nproc-per-node 2 train.py --mbs 2 --dp=4 {x} --out 'runs/it'\\''s #1'");
  EXPECT_EQ(sweep::words_of_command(s),
            (std::set<std::string>{"ranks_on_host", "policy.micro_batch", "layout.dp", "out"}));
}

TEST(GuestCommand, AWordThatIsNoKeyAndAnOpenBraceAreRefused) {
  const std::string unknown = refusal([] { guest_command(with_command("a {policy.micro_bach}"), {}); });
  EXPECT_NE(unknown.find("{policy.micro_bach}"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("policy.micro_batch"), std::string::npos) << unknown;
  const std::string open = refusal([] { guest_command(with_command("a {ranks"), {}); });
  EXPECT_NE(open.find("without }"), std::string::npos) << open;
}

// Reference: the processes of all nodes are the run's ranks, the first nodes having one more.
TEST(GuestCommand, EachNodeKnowsItsPlace) {
  const RunSpec s = with_command(
      "t --nnodes {nodes} --node-rank {node_rank} --nproc-per-node {ranks_on_host} --at "
      "{master_addr}:{master_port} on {nodelist}",
      {"layout.dp=8", "layout.tp=1"});
  GuestHosts hosts{.names = {"n1", "n2", "n3"}, .port = 29511};
  const char* each[] = {"3", "3", "2"};
  for (hosts.rank = 0; hosts.rank < 3; ++hosts.rank)
    EXPECT_EQ(guest_command(s, hosts), "t --nnodes 3 --node-rank " + std::to_string(hosts.rank) +
                                           " --nproc-per-node " + each[hosts.rank] +
                                           " --at n1:29511 on n1,n2,n3");
  EXPECT_TRUE(sweep::starts_on_every_node(s));
  EXPECT_NO_THROW(sweep::require_words_of_nodes(s, 3));
  const std::string said = refusal([] { sweep::require_words_of_nodes(with_command("a {ranks}"), 2); });
  EXPECT_NE(said.find("{node_rank}"), std::string::npos) << said;
  EXPECT_NO_THROW(sweep::require_words_of_nodes(with_command("srun -N {nodes} -n {ranks} x"), 2));
  EXPECT_NO_THROW(sweep::require_words_of_nodes(with_command("a {ranks}"), 1));
}

TEST(GuestCommand, NodesAreWhatTheLauncherAndTheJobSay) {
  std::map<std::string, std::string> set;
  const comm::Environment environment = [&](const char* name) {
    const auto at = set.find(name);
    return at == set.end() ? nullptr : at->second.c_str();
  };
  const RunSpec each = with_command("a --node-rank {node_rank} -n {ranks_on_host}");
  GuestHosts h = guest_hosts(each, environment);
  EXPECT_EQ(h.names, std::vector<std::string>{"localhost"});
  EXPECT_GT(h.port, 0);
  set = {{"PBS_NODEFILE", "/var/spool/pbs/aux/of/another/container"}};
  EXPECT_EQ(guest_hosts(each, environment).names, std::vector<std::string>{"localhost"});
  set = {{"ISOBAR_NODES", "n1,n2"}, {"ISOBAR_MASTER_PORT", "29512"}, {"SLURM_STEP_NUM_TASKS", "2"},
         {"SLURM_PROCID", "1"},     {"SLURM_LOCALID", "0"},          {"SLURM_NTASKS", "2"}};
  h = guest_hosts(each, environment);
  EXPECT_EQ(h.names, (std::vector<std::string>{"n1", "n2"}));
  EXPECT_EQ(h.rank, 1);
  EXPECT_EQ(h.port, 29512);
  EXPECT_TRUE(h.started_on_each);
  set["SLURM_LOCALID"] = "1";
  EXPECT_NE(refusal([&] { guest_hosts(each, environment); }).find("once a node"), std::string::npos);
  set["SLURM_LOCALID"] = "0";
  const RunSpec once = with_command("srun -N {nodes} -n {ranks} a");
  EXPECT_NE(refusal([&] { guest_hosts(once, environment); }).find("give the command once"),
            std::string::npos);
  set.erase("SLURM_STEP_NUM_TASKS");
  set.erase("SLURM_NTASKS");
  EXPECT_EQ(guest_hosts(once, environment).count(), 2);
  EXPECT_EQ(guest_hosts(with_command("a {ranks}"), environment).count(), 1);
}

TEST(GuestCommand, IsTakenUpFromItsNewestCheckpoint) {
  const Folder dir;
  RunSpec s = with_command("a {resume}");
  s.run.out = dir / "run";
  s.run.resume = "--resume {checkpoint}";
  s.run.checkpoint = "ckpt/step-*.pt";
  EXPECT_EQ(guest_command(s, {}), "a ");
  EXPECT_FALSE(sweep::checkpoint_of_command(s, s.run.out));
  fs::create_directories(fs::path(s.run.out) / "ckpt");
  for (const char* name : {"ckpt/step-9.pt", "ckpt/step-10.pt"}) {
    std::ofstream(fs::path(s.run.out) / name) << name;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const auto newest = sweep::checkpoint_of_command(s, s.run.out);
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->filename(), "step-10.pt");
  EXPECT_EQ(guest_command(s, {}, "it's"), "a --resume 'it'\\''s'");
  s.run.checkpoint.clear();
  EXPECT_NE(refusal([&] { guest_command(s, {}); }).find("run.checkpoint"), std::string::npos);
  s.run.resume.clear();
  EXPECT_NE(refusal([&] { guest_command(s, {}); }).find("run.resume"), std::string::npos);
}

// Reference: isobar emit's own words.
TEST(GuestCommand, FlagsAreWhatEmitWrites) {
  RunSpec s = load_run_spec(source_dir() + "/configs/models/llama3-8b.yaml",
                            {"layout.tp=2", "layout.dp=4", "policy.amp=bf16"});
  s.run.command = "torchrun pretrain_gpt.py {flags} --lr 1e-4";
  EXPECT_NE(refusal([&] { guest_command(s, {}); }).find("run.engine"), std::string::npos);
  s.run.engine = "megatrn";
  EXPECT_NE(refusal([&] { guest_command(s, {}); }).find("megatron"), std::string::npos);
  s.run.engine = "megatron";
  std::string want = perf::emitted(s, "megatron");
  for (size_t at; (at = want.find(" \\\n")) != std::string::npos;) want.replace(at, 3, " ");
  want.pop_back();
  EXPECT_EQ(guest_command(s, {}), "torchrun pretrain_gpt.py " + want + " --lr 1e-4");
  for (const char* key : {"layout.tp", "policy.recompute", "policy.bucket_mb", "train.global_batch"})
    EXPECT_TRUE(reaches_command(key, s)) << key;
  for (const char* key : {"train.lr", "data.workers", "train.seed"})
    EXPECT_FALSE(reaches_command(key, s)) << key;
  s.run.engine = "deepspeed";
  s.run.out = "runs/a b";
  EXPECT_NE(guest_command(s, {}).find("--deepspeed_config 'runs/a b/deepspeed.json'"), std::string::npos);
  EXPECT_EQ(flags_of(s).text, perf::emitted(s, "deepspeed"));
  EXPECT_FALSE(reaches_command("policy.recompute", s)) << "it is the model's";
  s.run.command = "a";
  EXPECT_NE(refusal([&] { guest_command(s, {}); }).find("{flags}"), std::string::npos);
}

TEST(GuestCommand, AVariedKeyMustReachTheCommand) {
  const RunSpec s = with_command("a --n {ranks} --mbs {policy.micro_batch}");
  EXPECT_NO_THROW(require_word_for("policy.micro_batch", s, "sweep.yaml"));
  EXPECT_NO_THROW(require_word_for("layout.dp", s, "sweep.yaml"));
  EXPECT_NO_THROW(require_word_for("ranks", s, "sweep.yaml"));  // gpus: of a sweep file
  EXPECT_FALSE(reaches_command("ranks", with_command("a --mbs {policy.micro_batch}")));
  EXPECT_NO_THROW(require_word_for("run.out", s, "sweep.yaml"));
  EXPECT_FALSE(reaches_command("train.global_batch", s));
  RunSpec of_rank = s;  // whose samples are given by rank
  of_rank.policy.micro_batch = 4;
  of_rank.train.global_batch = 4 * of_rank.layout.dp;
  EXPECT_TRUE(reaches_command("train.global_batch", of_rank));
  of_rank.train.global_batch *= 2;
  EXPECT_FALSE(reaches_command("train.global_batch", of_rank));
  for (const char* key : {"layout.tp", "policy.amp", "train.steps", "data.workers"}) {
    const std::string said = refusal([&] { require_word_for(key, s, "sweep.yaml"); });
    EXPECT_NE(said.find(key), std::string::npos) << said;
    EXPECT_NE(said.find("sweep.yaml"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace isobar::guest
