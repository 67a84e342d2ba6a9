// Output of `isobar train`: for people, the setup before and a summary after; for programs, one object.
#include "tests/engine/command.h"

namespace isobar::cli {
namespace {

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "lacks '" << (part) << "':\n" << (text)

/// The JSON objects among the lines that a command printed (errors are there, too).
std::vector<json> objects_of(const std::string& text) {
  std::vector<json> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("{")) out.push_back(json::parse(line, nullptr, false));
  return out;
}

TEST(TrainSays, WhatItTrainsAndHowItWent) {
  const Folder dir;
  const std::string out = dir / "run";
  const Ended e = train_command({"train.steps=6", "train.checkpoint_every=3", "run.threads=1",
                                 "run.out=" + out, "policy.micro_batch=2"},
                                {"--ranks", "2"});
  ASSERT_EQ(e.code, 0) << e.text;
  const WrittenRun r = read_run(out);
  const size_t begin = e.text.find("net        vit, 134,976 parameters"), step = e.text.find("step      1/6"),
               end = e.text.find("trained    6 steps");
  ASSERT_NE(begin, std::string::npos) << e.text;
  ASSERT_NE(step, std::string::npos) << e.text;
  ASSERT_NE(end, std::string::npos) << e.text;
  EXPECT_LT(begin, step);
  EXPECT_LT(step, end);
  char memory[32], loss[64];
  std::snprintf(memory, sizeof memory, "memory     %.1f MB a rank",
                1e-6 * r.start["memory"]["total"].get<double>());
  std::snprintf(loss, sizeof loss, "loss       %.5f after step 6", r.losses.at(6));
  for (const std::string& words :
       {std::string("2 blocks of 64, 4 heads"), std::string("dp 2: 2 ranks on 1 host, 1 thread each"),
        std::string("8 samples a step: 2 micro-batches of 2 on each of 2 replicas"),
        std::string("precision  fp32"), std::string("synthetic noise"), std::string("6; checkpoint every 3"),
        "out        " + out, std::string(memory), std::string(loss),
        "kept       " + out + "/checkpoints/step-00000006", "isobar report " + out})
    EXPECT_HAS(e.text, words);
}

TEST(TrainSays, OneObjectWithTheSummary) {
  const Folder dir;
  for (const char* ranks : {"1", "2"}) {
    const std::string out = dir / ranks;
    const Ended e =
        train_command({"train.steps=6", "train.checkpoint_every=3", "run.threads=1", "run.out=" + out},
                      {"--ranks", ranks, "--json"});
    ASSERT_EQ(e.code, 0) << e.text;
    const auto objects = objects_of(e.text);
    ASSERT_EQ(objects.size(), 1u) << e.text;
    const WrittenRun r = read_run(out);
    json expected = r.end;
    expected["out"] = out;
    EXPECT_EQ(objects[0], expected);
    EXPECT_EQ(objects[0]["status"], "ok");
    EXPECT_EQ(objects[0]["final_loss"], r.losses.at(6));
    EXPECT_EQ(objects[0]["trained_steps"], 6);
    EXPECT_EQ(objects[0]["checkpoint"], out + "/checkpoints/step-00000006");
    EXPECT_GT(objects[0]["step_s"]["median"].get<double>(), 0);
    // A finished training: the same summary again, without a step.
    const Ended again =
        train_command({"train.steps=6", "train.checkpoint_every=3", "run.threads=1", "run.out=" + out},
                      {"--ranks", ranks, "--json", "--resume", out});
    ASSERT_EQ(objects_of(again.text), objects) << again.text;
  }
}

TEST(TrainSays, OneObjectWithTheReasonOfAFailure) {
  const Folder dir;
  int n = 0;
  for (const char* ranks : {"1", "2"})
    for (const auto& [set, run_class, words, code] :
         {std::tuple{"train.lr=1e30", "numeric", "lower train.lr or look at the data", 3},
          {"net.patch_size=7", "bad_config", "'net.patch_size'", 2},
          {"data.train=nowhere", "bad_config", "nowhere", 2},
          {"net.embed_dim=65536", "oom_host", "", 4}})
      for (const bool kept : {true, false}) {
        if (code == 4 && (kSanitized || ranks[0] == '2')) continue;  // two ranks may fail one after another
        SCOPED_TRACE(std::string(set) + ", ranks " + ranks + (kept ? ", kept" : ""));
        Words all = {set, "run.threads=1", "net.depth=1000"};
        if (code != 4) all.back() = "net.depth=2";
        if (kept) all.push_back("run.out=" + (dir / std::to_string(++n)));
        const Ended e = train_command(all, {"--ranks", ranks, "--json"});
        EXPECT_EQ(e.code, code) << e.text;
        const auto objects = objects_of(e.text);
        ASSERT_EQ(objects.size(), 1u) << e.text;
        EXPECT_EQ(objects[0]["status"], "failed");
        EXPECT_EQ(objects[0]["class"], run_class) << e.text;
        if (kept || ranks[0] == '1' || code == 2) {
          EXPECT_HAS(objects[0]["message"].get<std::string>(), words);
        }
      }
}

}  // namespace
}  // namespace isobar::cli
