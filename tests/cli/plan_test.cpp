// `isobar plan` and `predict` of what is huge: in time and memory, or refused.
#include <sstream>
#include <utility>
#include <vector>

#include "tests/cli/shell.h"

namespace isobar::cli {
namespace {

// Limits of five seconds of processor time (slow cores take 2.5) and 500 MB, which the kernel enforces.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const std::string kLimits;  // sanitizers take memory of their own
#else
const std::string kLimits = "ulimit -t 5 -d 488281 && ";
#endif

class PlanCommand : public InDirectory {};

TEST_F(PlanCommand, TakesHundredsOfBlocksInFiveSecondsAndHalfAGigabyteAndRefusesAHundredThousand) {
  const auto plan = [&](const std::string& more) {
    return shell(at(kLimits + isobar_command() + " plan " + more + " 2>&1"));
  };
  for (const std::string& of :
       {shipped("models/llama3-8b.yaml") + " --set policy.zero=0 --set policy.recompute=none",
        std::string("base.yaml")}) {
    const Answer huge = plan(of + " --totals --set net.depth=100000");
    EXPECT_EQ(huge.code, 2) << huge.out;
    EXPECT_NE(huge.out.find("'net.depth': makes 100000 blocks, above 4096"), std::string::npos) << huge.out;
    const Answer a = plan(of + " --totals --set net.depth=256");
    EXPECT_EQ(a.code, 0) << a.out;
  }
}

// Rank tables of NERSC's tutorial and its check, as its own program makes them
TEST_F(PlanCommand, PrintsTheRanksOfEachGroup) {
  for (const auto& [layout, lines] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"tp=4 dp=2 order=tp-cp-dp",
            {"dp     [0, 4], [1, 5], [2, 6], [3, 7]", "tp     [0, 1, 2, 3], [4, 5, 6, 7]",
             "cp     each rank alone", "tp-cp  [0, 1, 2, 3], [4, 5, 6, 7]"}},
           {"tp=2 cp=2 dp=2 order=cp-tp-dp",
            {"dp     [0, 4], [1, 5], [2, 6], [3, 7]", "tp     [0, 2], [1, 3], [4, 6], [5, 7]",
             "cp     [0, 1], [2, 3], [4, 5], [6, 7]", "tp-cp  [0, 1, 2, 3], [4, 5, 6, 7]"}},
           {"tp=2 cp=2 dp=2 order=dp-tp-cp",
            {"dp     [0, 1], [2, 3], [4, 5], [6, 7]", "cp     [0, 4], [1, 5], [2, 6], [3, 7]",
             "tp-cp  [0, 2, 4, 6], [1, 3, 5, 7]"}},
           {"tp=2 pp=2 dp=2 order=tp-pp-dp",
            {"pp     [0, 2], [1, 3], [4, 6], [5, 7]", "rank   dp  tp  cp  pp", "5       1   1   0   0"}}}) {
    std::string words;
    std::istringstream all(layout);
    for (std::string word; all >> word;) words += " --set layout." + word;
    const Answer a = shell(at(isobar_command() + " plan base.yaml --groups" + words));
    ASSERT_EQ(a.code, 0) << a.out;
    for (const std::string& line : lines)
      EXPECT_NE(("\n" + a.out).find("\n" + line + "\n"), std::string::npos) << line << "\n" << a.out;
  }
  EXPECT_EQ(shell(at(isobar_command() + " plan base.yaml --groups --totals 2>&1")).code, 2);
}

TEST_F(PlanCommand, WhatIsHugeIsPredictedOrRefusedWithinTheSameLimits) {
  for (const char* machine : {"machines/example-2core.yaml", "machines/dgx-h100.yaml"}) {
    const auto predicted = [&](const std::string& size) {
      return shell(at(kLimits + isobar_command() + " predict " + shipped("models/llama3-8b.yaml") +
                      " --machine " + shipped(machine) +
                      " --set policy.zero=0 --set policy.recompute=none --set " + size + " 2>&1"));
    };
    for (const char* size : {"train.global_batch=524288",  // 65,536 micro-batches
                             "layout.dp=65536 --set train.global_batch=65536"}) {
      const Answer a = predicted(size);
      EXPECT_EQ(a.code, 4) << machine << " " << size << "\n" << a.out;  // and does not fit
      EXPECT_NE(a.out.find("one optimizer step"), std::string::npos) << a.out;
    }
    for (const auto& [size, key] :
         {std::pair{"net.depth=100000", "net.depth"}, {"train.global_batch=1048576", "policy.micro_batch"}}) {
      const Answer a = predicted(size);
      EXPECT_EQ(a.code, 2) << machine << " " << size << "\n" << a.out;
      EXPECT_NE(a.out.find(key), std::string::npos) << a.out;
    }
  }
}

}  // namespace
}  // namespace isobar::cli
