// `isobar train --trace` on emulated GPUs under an emulated CUPTI: all of the device's time has an owner,
// with graphs and without, and no record is made of calls that launch nothing.
#include <gtest/gtest.h>

#include <set>

#include "tests/engine/command.h"
#include "tests/engine/ocean.h"
#include "tests/paths.h"

namespace isobar {
namespace {

struct TracedNet {
  std::string config;
  Words set;
};

struct TracedRun {
  const char* name;
  int ranks;
  Words set;
};

class EmulatedTraces : public ::testing::TestWithParam<TracedRun> {
 protected:
  /// The run's event of this kind.
  static json event(const fs::path& run, const std::string& kind) {
    std::ifstream file(run / "result.jsonl");
    for (std::string line; std::getline(file, line);)
      if (json j = json::parse(line); j["event"] == kind) return j;
    return {};
  }
};

TEST_P(EmulatedTraces, NamesAllThatTheDeviceDoes) {
  const Folder dir;
  const std::string build = build_dir(), trace = dir / "trace.json";
  const TracedNet net = masked(two_channels(TracedNet{
      // with fields, so that it validates
      tiny(),
      {"net.embed_dim=16", "net.num_heads=2", "net.depth=2", "net.img_height=16", "net.img_width=16"}}));
  Words words = {"env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                 "LD_LIBRARY_PATH=" + build + "/emulated_cupti:" + build + "/emulated_nccl"};
  for (const char* w : {"mpiexec", "-n"}) words.emplace_back(w);
  words.push_back(std::to_string(GetParam().ranks));
  for (const char* w : {"--oversubscribe", "--bind-to", "none"}) words.emplace_back(w);
  const Words set =
      net.set + Words{"run.device=cuda",          "run.threads=1",           "train.global_batch=4",
                      "policy.micro_batch=1",     "train.steps=14",          "train.valid_every=6",
                      "train.checkpoint_every=6", "run.out=" + (dir / "run")};
  const Words train = train_words(net.config, set + GetParam().set, {"--trace", trace});
  words.push_back(build + "/emulated_train");
  words.insert(words.end(), train.begin() + 1, train.end());
  const Ended e = Child(words).wait();
  ASSERT_EQ(e.code, 0) << e.text;
  const json share = event(dir / "run", "device_share");
  ASSERT_TRUE(share.is_object()) << e.text;
  const auto text = share["text"].get<std::string>();
  EXPECT_EQ(share["joined_share"], 1) << text;
  EXPECT_TRUE(text.ends_with("other 0.00 %")) << text;
  for (const char* work : {"uploads", "downloads"}) EXPECT_NE(text.find(work), std::string::npos) << text;
  EXPECT_NE(e.text.find("emulated CUPTI: 0 records of calls that launch nothing"), std::string::npos)
      << e.text;
  const json ended = event(dir / "run", "run_end");
  const auto landing = std::find_if(ended["ops"].begin(), ended["ops"].end(),
                                    [](const json& op) { return op["path"] == "data/fetch/landing"; });
  ASSERT_NE(landing, ended["ops"].end()) << ended["ops"];
  EXPECT_EQ((*landing)["lane"], "h2d");
  EXPECT_GT((*landing)["seconds"], 0);
  const double samples = (*landing)["count"];  // micro-batches of one, each two channels in and two out
  EXPECT_GE((*landing)["bytes"], 4 * 2 * 16 * 16 * samples);
  std::set<std::string> lanes;  // of fetches
  const json timeline = json::parse(text_of(trace));
  for (const json& span : timeline["traceEvents"])
    if (span["ph"] == "X" && span["args"].value("kind", "") == "fetch")
      lanes.insert(std::to_string(span["tid"].get<int>()));
  EXPECT_EQ(lanes.size(), 2u) << "within the device, and over the link";
}

INSTANTIATE_TEST_SUITE_P(
    Runs, EmulatedTraces,
    ::testing::Values(TracedRun{"Graphs", 1, {}}, TracedRun{"Launches", 1, {"run.cuda_graphs=false"}},
                      TracedRun{"DataParallel", 2, {"layout.dp=2", "policy.zero=1"}},
                      TracedRun{"Pipeline", 2, {"layout.pp=2", "run.cuda_graphs=false"}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace isobar
