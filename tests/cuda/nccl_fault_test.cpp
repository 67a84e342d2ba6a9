// The train command on emulated GPUs (emulated_train), several ranks over an emulated NCCL: layouts train
// like one rank; and when one rank's transfer fails (faulty_nccl), all ranks end in time, with a message that
// names the rank and the op, and no process is left.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>

#include "model/backend/cpu/cpu_backend.h"
#include "model/base/nccl_resources.h"
#include "model/engine/processor.h"
#include "model/nets/build.h"
#include "model/nets/layout/device_memory.h"
#include "tests/engine/command.h"
#include "tests/engine/ocean.h"
#include "tests/paths.h"
#include "tests/pattern.h"

namespace isobar {
namespace {

constexpr double kTimeout_s = 10;
constexpr double kNoTimeout_s = 600;  // an emulated GPU on a busy core may stand still for long
// Allowance for starting and ending processes on a busy machine.
constexpr double kBeside_s = kSanitized ? 120 : 60;

struct TestNet {
  std::string config;
  Words set;
};
const TestNet kVit{
    tiny(), {"net.embed_dim=16", "net.num_heads=2", "net.depth=2", "net.img_height=16", "net.img_width=16"}};
const TestNet kUnet{source_dir() + "/configs/models/unet-tiny.yaml",
                    {"net.embed_dim=16", "net.num_heads=2", "net.encoder_depth=1", "net.bottleneck_depth=1",
                     "net.decoder_depth=1", "net.img_height=16", "net.img_width=32"}};

const TestNet kExperts{source_dir() + "/configs/models/moe-tiny.yaml",
                       {"net.depth=1", "net.seq_length=16", "net.vocab_size=64", "net.embed_dim=32",
                        "net.ffn_dim=32", "net.num_heads=2", "net.num_kv_heads=2"}};

Words emulated(int ranks, const std::string& fault, const std::string& out, const Words& set,
               const TestNet& net = kVit) {
  const std::string build = build_dir();
  Words words = {"env",
                 "OMPI_ALLOW_RUN_AS_ROOT=1",
                 "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                 "LD_LIBRARY_PATH=" + build + (fault.empty() ? "/emulated_nccl" : "/faulty_nccl"),
                 "ISOBAR_NCCL_NEXT=" + build + "/emulated_nccl/libnccl.so.2",
                 "ISOBAR_NCCL_FAULT=" + fault};
  for (const char* s : {"mpiexec", "-n"}) words.emplace_back(s);
  words.push_back(std::to_string(ranks));
  for (const char* s : {"--oversubscribe", "--bind-to", "none"}) words.emplace_back(s);
  Words all = net.set;
  for (const std::string& w :
       {std::string("run.device=cuda"), std::string("run.threads=1"), std::string("train.global_batch=4"),
        "run.hang_timeout=" + std::to_string(static_cast<int>(fault.empty() ? kNoTimeout_s : kTimeout_s)),
        "run.out=" + out})
    all.push_back(w);
  const Words train = train_words(net.config, all);
  words.push_back(build + "/emulated_train");
  words.insert(words.end(), train.begin() + 1, train.end());
  for (const std::string& s : set) words.insert(words.end(), {"--set", s});
  return words;
}

struct LayoutCase {
  const char* name;
  int ranks;
  Words set;
};

void expect_like_one(const TestNet& net, const std::vector<LayoutCase>& cases) {
  const Folder dir;
  const Words steps = {"train.steps=3"};
  const Ended alone = Child(emulated(1, "", dir / "one", steps, net)).wait();
  ASSERT_EQ(alone.code, 0) << alone.text;
  const auto expected = read_run(dir / "one").losses;
  ASSERT_EQ(expected.size(), 3u);
  for (const LayoutCase& c : cases) {
    SCOPED_TRACE(c.name);
    Words set = c.set;
    set.insert(set.end(), steps.begin(), steps.end());
    const Ended e = Child(emulated(c.ranks, "", dir / c.name, set, net)).wait();
    EXPECT_EQ(e.code, 0) << e.text;
    const auto losses = read_run(dir / c.name).losses;
    ASSERT_EQ(losses.size(), expected.size()) << e.text;
    for (const auto& [step, loss] : expected)
      EXPECT_NEAR(losses.at(step), loss, 1e-5 * std::abs(loss)) << step;
  }
}

TEST(EmulatedRanks, TrainLikeOne) {
  expect_like_one(kVit, {{"dp2", 2, {"layout.dp=2"}},
                         {"dp2 zero 3", 2, {"layout.dp=2", "policy.zero=3"}},
                         {"tp2 sequence parallel", 2, {"layout.tp=2", "policy.sequence_parallel=true"}},
                         {"cp3 ring", 3, {"layout.cp=3", "policy.cp_kind=ring"}},
                         {"cp2 ulysses", 2, {"layout.cp=2", "policy.cp_kind=ulysses"}},
                         {"pp2 1f1b", 2, {"layout.pp=2", "policy.micro_batch=1", "policy.schedule=1f1b"}}});
}

TEST(EmulatedRanks, SayTheirClocksAndTheirEnergy) {
  const Folder dir;
  const Ended e = Child(emulated(2, "", dir / "run", {"layout.dp=2", "train.steps=6"})).wait();
  ASSERT_EQ(e.code, 0) << e.text;
  nlohmann::json reported, device;
  double planning_s = -1;
  std::ifstream file(fs::path(dir / "run") / "result.jsonl");
  for (std::string line; std::getline(file, line);)
    if (const auto j = nlohmann::json::parse(line); j["event"] == "ranks")
      reported = j;
    else if (j["event"] == "set_up")
      planning_s = j["seconds"]["planning"];
    else if (j["event"] == "device")
      device = j;
  ASSERT_EQ(reported["ranks"].size(), 2u) << reported;
  EXPECT_EQ(reported["energy"], "GPU of each of 2");
  EXPECT_GE(planning_s, 0) << "time of planning";
  EXPECT_GE(device["gpu"]["gemm_timing_s"].get<double>(), 0) << device;
  EXPECT_GT(device["gpu"]["graph_capture_s"].get<double>(), 0) << device;
  for (const auto& rank : reported["ranks"]) {
    EXPECT_EQ(rank["mhz"], 1410);
    EXPECT_DOUBLE_EQ(rank["busy"], 0.87);
    EXPECT_EQ(rank["celsius"], 61);
    EXPECT_EQ(rank["pcie_in_bytes_s"], 3 << 20);
    EXPECT_EQ(rank["pcie_out_bytes_s"], 2 << 20);
    EXPECT_NEAR(rank["watts"].get<double>(), 300, 30) << "of whole millijoules over a few steps";
    EXPECT_FALSE(rank.contains("compute_s")) << "a GPU's ops are timed only while it is traced";
  }
  EXPECT_GT(reported["joules_per_step"], 0);
}

TEST(EmulatedRanks, TrainANetWithASkipLikeOne) {
  expect_like_one(kUnet, {{"tp2", 2, {"layout.tp=2"}},
                          {"dp2 pp2", 4, {"layout.dp=2", "layout.pp=2", "policy.micro_batch=1"}},
                          {"pp3", 3, {"layout.pp=3", "policy.micro_batch=1"}}});
}

// NCCL takes the numbers of copies from the host.
TEST(EmulatedRanks, TrainDividedExpertsLikeOne) {
  expect_like_one(kExperts, {{"ep2", 2, {"layout.dp=2", "layout.ep=2"}},
                             {"dp4 ep2 zero 2", 4, {"layout.dp=4", "layout.ep=2", "policy.zero=2"}}});
}

TEST(EmulatedRanks, TrainOnFieldsThatAreMissingInPartLikeOne) {
  const TestNet net = masked(two_channels(kVit));
  expect_like_one(net, {{"dp2", 2, {"layout.dp=2"}},
                        {"cp3", 3, {"layout.cp=3"}},
                        {"pp2", 2, {"layout.pp=2", "policy.micro_batch=1"}}});
  const Folder dir;  // compare with the CPU
  const Ended gpu = Child(emulated(1, "", dir / "gpu", {"train.steps=3"}, net)).wait();
  ASSERT_EQ(gpu.code, 0) << gpu.text;
  const Ended cpu =
      Child(train_words(net.config, net.set + Words{"train.steps=3", "train.global_batch=4", "run.threads=1",
                                                    "run.out=" + (dir / "cpu")}))
          .wait();
  ASSERT_EQ(cpu.code, 0) << cpu.text;
  const auto want = read_run(dir / "cpu").losses;
  ASSERT_EQ(want.size(), 3u);
  for (const auto& [step, loss] : read_run(dir / "gpu").losses)
    EXPECT_NEAR(want.at(step), loss, 1e-4 * std::abs(loss)) << step;
}

// policy.micro_batch 0: the engine chooses what `isobar predict` says for a machine with the same memory,
// equally on all ranks.
TEST(EmulatedRanks, TakeTheLargestMicroBatchThatFitsAsPredicted) {
  struct Case {
    const char* name;
    int ranks;
    Words set;
    int64_t wanted;       // of a rank's 4 or 8 samples
    bool shared = false;  // its ranks share one GPU, twice as large
  };
  for (const Case& c :
       {Case{"one", 1, {"train.global_batch=4"}, 2}, Case{"one", 1, {"train.global_batch=4"}, 4},
        Case{"dp2 zero 3", 2, {"layout.dp=2", "policy.zero=3", "train.global_batch=8"}, 2},
        Case{"tp2", 2, {"layout.tp=2", "train.global_batch=4"}, 1},
        Case{"tp2 on one GPU", 2, {"layout.tp=2", "train.global_batch=4"}, 2, true},
        Case{"pp2", 2, {"layout.pp=2", "train.global_batch=8"}, 2}}) {
    SCOPED_TRACE(std::string(c.name) + ", " + std::to_string(c.wanted));
    Words net = kVit.set + c.set + Words{"run.device=cuda", "policy.micro_batch=" + std::to_string(c.wanted)};
    const RunSpec spec = load_run_spec(kVit.config, net);
    const auto need = static_cast<int64_t>(
        std::ceil(nets::device_memory(spec, engine::gpu_workspace(spec), nets::DeviceRoom{}).total()));
    const Folder dir;
    std::string machine = text_of(source_dir() + "/configs/machines/dgx-h100.yaml");
    machine = replaced(machine, "\n  reported_bytes: [0-9]+", "\n  reported_bytes: " + std::to_string(need));
    std::ofstream(dir / "machine.yaml") << machine;
    Words asked = {build_dir() + "/isobar", "predict", kVit.config, "--machine",
                   dir / "machine.yaml",    "--json"};
    for (const std::string& s : kVit.set + c.set + Words{"run.device=cuda"})
      asked = asked + Words{"--set", s};
    const Ended said = Child(asked).wait();
    ASSERT_EQ(said.code, 0) << said.text;
    const json p = json::parse(said.text);
    EXPECT_EQ(p.at("micro_batch_chosen"), true);
    EXPECT_EQ(p.at("layout").at("micro_batch"), c.wanted);
    EXPECT_EQ(p.at("memory_total_bytes"), need);
    Words words = emulated(c.ranks, "", dir / "run", c.set + Words{"train.steps=2"});
    words.insert(words.begin() + 1, "ISOBAR_EMULATED_GPU_BYTES=" + std::to_string(need * (c.shared ? 2 : 1)));
    if (c.shared) words.insert(words.begin() + 1, "ISOBAR_EMULATED_GPU_SHARED=1");
    const Ended ran = Child(words).wait();
    ASSERT_EQ(ran.code, 0) << ran.text;
    EXPECT_NE(ran.text.find("(micro-batch " + std::to_string(c.wanted) + ", the largest that fits"),
              std::string::npos)
        << ran.text;
    for (const json& e : read_run(dir / "run").events)
      if (e["event"] == "run_start") EXPECT_EQ(e["spec"]["policy"]["micro_batch"], c.wanted);
  }
}

// A resumed run compares its choice with the first run's, not with the 0 in the file.
TEST(EmulatedRanks, AResumedRunSaysThatItsMicroBatchIsAnother) {
  const Folder dir;
  const auto run = [&](const std::string& steps, const std::string& bytes, const Words& resume) {
    Words words = emulated(1, "", dir / "run", {"train.checkpoint_every=1", "train.steps=" + steps}) + resume;
    words.insert(words.begin() + 1, "ISOBAR_EMULATED_GPU_BYTES=" + bytes);
    const Ended e = Child(words).wait();
    EXPECT_EQ(e.code, 0) << e.text;
    return e.text;
  };
  const Words resume = {"--resume", dir / "run"};
  run("1", "80000000000", {});
  EXPECT_EQ(run("2", "80000000000", resume).find("policy.micro_batch"), std::string::npos);
  const std::string less = run("3", "500000000", resume);  // less than the process takes
  EXPECT_NE(less.find("changed: policy.micro_batch 4 -> 1, train.steps 2 -> 3"), std::string::npos) << less;
}

TEST(EmulatedRanks, WhereNothingFitsTheArenaIsRefused) {
  const Folder dir;
  Words words = emulated(1, "", dir / "run", {"train.steps=1"});
  words.insert(words.begin() + 1, "ISOBAR_EMULATED_GPU_BYTES=1000000");
  const Ended e = Child(words).wait();
  EXPECT_EQ(e.code, 4) << e.text;
  EXPECT_NE(e.text.find("the device cannot give the arena"), std::string::npos) << e.text;
  EXPECT_EQ(read_run(dir / "run").end.value("class", ""), "oom_device");
}

/// The GPU in the run's last record.
json gpu_of(const std::string& out) {
  json gpu;
  for (const json& e : read_run(out).events)
    if (e["event"] == "device") gpu = e["gpu"];
  return gpu;
}

// The emulator's GPU has 132 multiprocessors.
TEST(EmulatedRanks, ProductsLeaveMultiprocessorsToTransfersThatRunBesideThem) {
  struct Case {
    const char* name;
    int ranks;
    Words set;
    const char* variable;
    int sms;
  };
  for (const Case& c : {Case{"one", 1, {}, "NCCL_MAX_CTAS=8", 0},
                        {"dp2", 2, {"layout.dp=2"}, "ISOBAR_NOTHING=1", 132 - kNcclChannels},
                        {"serial", 2, {"layout.dp=2", "run.serial=true"}, "NCCL_MAX_CTAS=8", 0}}) {
    SCOPED_TRACE(c.name);
    const Folder dir;
    Words words = emulated(c.ranks, "", dir / "run", c.set);
    words.insert(words.begin() + 1, c.variable);
    words.insert(words.end(), {"--set", "train.steps=1"});
    const Ended e = Child(words).wait();
    ASSERT_EQ(e.code, 0) << e.text;
    EXPECT_EQ(gpu_of(dir / "run").value("product_sms", -1), c.sms);
  }
  const Folder dir;
  Words words = emulated(2, "", dir / "run", {"layout.dp=2"});
  words.insert(words.begin() + 1, "NCCL_MAX_CTAS=many");
  const Ended e = Child(words).wait();
  EXPECT_EQ(e.code, 2) << e.text;
  EXPECT_NE(e.text.find("'NCCL_MAX_CTAS': 'many' is no number"), std::string::npos) << e.text;
}

// The emulated NCCL takes 1 MiB for a communicator, and 3 MiB more at its first use.
TEST(EmulatedRanks, SayWhatNcclTakesOfTheDevice) {
  const Folder dir;
  const Ended e = Child(emulated(2, "", dir / "run", {"layout.tp=2", "train.steps=2"})).wait();
  ASSERT_EQ(e.code, 0) << e.text;
  const json gpu = gpu_of(dir / "run");
  const int64_t made = gpu.value("nccl_bytes", int64_t{-1}), mib = 1 << 20;
  ASSERT_GT(made, 0) << gpu;
  ASSERT_EQ(made % mib, 0) << gpu;
  const int64_t communicators = made / mib;
  EXPECT_EQ(gpu.value("nccl_planned_bytes", int64_t{-1}), communicators * kNcclChannels * 9633792) << gpu;
  const int64_t rest = gpu.value("in_use_after_first_step_bytes", int64_t{-1}) -
                       gpu.value("in_use_before_nccl_bytes", int64_t{-1}) - made -
                       gpu.value("landing_bytes", 0);
  EXPECT_GE(rest, 3 * mib) << gpu;
  EXPECT_LE(rest, communicators * 3 * mib) << gpu;
}

/// True if a message names a transfer of the plan.
bool names_transfer(const std::string& text) {
  static const plan::Plan plan = nets::build_plan(
      load_run_spec(tiny(), {"net.depth=2", "net.embed_dim=16", "net.num_heads=2", "layout.tp=2"}), 0,
      cpu_workspace(1));
  return std::any_of(plan.ops.begin(), plan.ops.end(), [&](const plan::Op& op) {
    return plan::is_collective(op.kind) && text.find(op.path) != std::string::npos;
  });
}

struct Fault {
  const char* what;
  const char* fault;      // for faulty_nccl
  std::string says;       // message of the rank that saw it
  const char* end_class;  // of run_end; empty: a killed process writes none
};

TEST(NcclFaults, EndTheRunInTimeWithRankAndOp) {
  for (const Fault& f :
       {Fault{"a call fails", "1:10:error", "rank 1: ", "crash"},
        Fault{"a call fails, and what follows never ends", "1:10:stuck", "rank 1: ", "crash"},
        Fault{"a peer is gone", "1:10:async", "rank 1: ", "crash"},
        Fault{"a call never returns", "1:10:stall", "made no progress", "hang"},
        Fault{"a rank is killed", "1:10:die", "", ""}}) {
    SCOPED_TRACE(f.what);
    const Folder dir;
    const std::string out = dir / "run";
    const Ended e = Child(emulated(2, f.fault, out, {"layout.tp=2", "train.steps=1000"})).wait();
    EXPECT_GT(e.code, 0) << e.text;
    EXPECT_LT(e.seconds, kTimeout_s + kBeside_s) << e.text;
    EXPECT_NE(e.text.find(f.says), std::string::npos) << e.text;
    for (const pid_t p : processes_with(out)) EXPECT_TRUE(gone(p)) << p;
    if (!*f.end_class) continue;
    const json end = read_run(out).end;
    EXPECT_EQ(end.value("class", ""), f.end_class) << end;
    const std::string reported = end.value("message", "");
    // The emulated transfers behind an asynchronous error still end: then products are under way, or nothing
    // is.
    const bool over = std::string(f.fault).ends_with(":async") &&
                      (reported.ends_with("not done: compute") || reported.ends_with("not done: none"));
    EXPECT_TRUE(over || names_transfer(reported)) << "names no op: " << reported;
  }
}

// Only ncclCommAbort frees a lost peer's transfer, its stream, and the memory and communicators behind it:
// without it the rank hangs in teardown until the watchdog ends it.
TEST(NcclFaults, AStreamThatWaitsForALostPeerIsLetGo) {
  const Folder dir;
  const std::string out = dir / "run";
  const int patience_s = static_cast<int>(kBeside_s);
  const Ended e =
      Child(emulated(2, "1:10:busy", out,
                     {"layout.tp=2", "train.steps=1000", "run.hang_timeout=" + std::to_string(patience_s)}))
          .wait();
  EXPECT_GT(e.code, 0) << e.text;
  EXPECT_EQ(e.text.find("made no progress"), std::string::npos) << e.text;
  EXPECT_LT(e.seconds, patience_s) << e.text;
  EXPECT_NE(e.text.find("rank 1: "), std::string::npos) << e.text;
  EXPECT_EQ(read_run(out).end.value("class", ""), "crash") << e.text;
  for (const pid_t p : processes_with(out)) EXPECT_TRUE(gone(p)) << p;
}

TEST(NcclFaults, ARankThatStopsWithinGraphsIsFound) {
  const Folder dir;
  const std::string out = dir / "run";
  Child child(emulated(2, "0:0:error", out, {"layout.tp=2", "train.steps=1000"}));
  ASSERT_TRUE(reached(child, out, 4, 200))
      << child.wait(0).text;  // graphs are replayed from the third step on
  std::vector<pid_t> ranks;
  for (const pid_t p : processes_with(out))
    if (text_of("/proc/" + std::to_string(p) + "/cmdline").find("mpiexec") == std::string::npos)
      ranks.push_back(p);
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(ranks.back(), SIGSTOP);
  const double begun = seconds_now();
  const Ended e = child.wait();
  EXPECT_GT(e.code, 0) << e.text;
  EXPECT_LT(seconds_now() - begun, kTimeout_s + kBeside_s) << e.text;
  EXPECT_NE(e.text.find("isobar: rank "), std::string::npos) << e.text;
  EXPECT_TRUE(names_transfer(e.text)) << "names no op: " << e.text;
  for (const pid_t p : processes_with(out)) EXPECT_TRUE(gone(p)) << p;
}

}  // namespace
}  // namespace isobar
