// `isobar plan` of a net far too deep to be planned block by block.
#include <nlohmann/json.hpp>

#include "tests/cli/shell.h"

namespace isobar {
namespace {

// A limit of two seconds of processor time and 500 MB, which the kernel enforces.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const std::string kLimits;  // sanitizers take memory of their own
#else
const std::string kLimits = "ulimit -t 2 -d 488281 && ";
#endif

class PlanCommand : public InDirectory {};

TEST_F(PlanCommand, TakesAHundredThousandBlocksInTwoSecondsAndHalfAGigabyte) {
  const auto plan = [&](const std::string& more) {
    return shell(at(kLimits + isobar_command() + " plan " + more + " 2>&1"));
  };
  for (const std::string& of : {shipped("models/llama3-8b.yaml"), std::string("base.yaml")}) {
    const Answer a = plan(of + " --totals --set net.depth=100000");
    EXPECT_EQ(a.code, 0) << a.out;
    EXPECT_NE(a.out.find("note: planned with net.depth "), std::string::npos) << a.out;
  }
  // Between one depth and twice that depth, all but the ends doubles.
  const auto parameters = [&](const std::string& depth) {
    const Answer a = plan("base.yaml --totals --json --set net.depth=" + depth);
    EXPECT_EQ(a.code, 0) << a.out;
    return nlohmann::json::parse(a.out).at("parameters").get<int64_t>();
  };
  EXPECT_EQ(parameters("100000") - parameters("50000"), 500 * (parameters("300") - parameters("200")));
}

TEST_F(PlanCommand, WhatIsHugeIsPredictedWithinTheSameLimits) {
  for (const char* machine : {"machines/example-2core.yaml", "machines/dgx-h100.yaml"})
    for (const char* size : {"net.depth=100000", "train.global_batch=1048576",  // 131,072 micro-batches
                             "layout.dp=65536 --set train.global_batch=65536"}) {
      const Answer a = shell(at(kLimits + isobar_command() + " predict " + shipped("models/llama3-8b.yaml") +
                                " --machine " + shipped(machine) + " --set " + size + " 2>&1"));
      EXPECT_EQ(a.code, 4) << machine << " " << size << "\n" << a.out;  // and does not fit
      EXPECT_NE(a.out.find("one optimizer step"), std::string::npos) << a.out;
    }
}

}  // namespace
}  // namespace isobar
