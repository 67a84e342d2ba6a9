// Whole plans as text, reviewed as diffs. After an intended change:
//   ISOBAR_UPDATE_GOLDEN=1 build/test_plan --gtest_filter='Golden*' && git diff tests/golden
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "model/base/system/files.h"
#include "tests/paths.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

void compare(const std::string& name, const Plan& plan) {
  const std::string path = (source_dir() + "/tests/golden/") + name, text = to_text(plan);
  if (std::getenv("ISOBAR_UPDATE_GOLDEN")) {
    write_atomically(path, text);
    return;
  }
  std::istringstream golden(read_file(path)), now(text);
  std::string a, b;
  for (int line = 1;; ++line) {
    const bool more_a = static_cast<bool>(std::getline(golden, a)),
               more_b = static_cast<bool>(std::getline(now, b));
    if (!more_a && !more_b) return;
    ASSERT_TRUE(more_a && more_b && a == b)
        << path << ":" << line << " differs\n  golden: " << (more_a ? a : "(end)")
        << "\n  now:    " << (more_b ? b : "(end)")
        << "\nIf the change is meant: ISOBAR_UPDATE_GOLDEN=1 build/test_plan --gtest_filter='Golden*', then "
           "review "
           "git diff tests/golden";
  }
}

TEST(Golden, TinyOnOneRank) {
  compare("vit-tiny.plan", nets::build_plan(spec_of("vit-tiny"), 0, no_workspace));
}

TEST(Golden, TinyOnTwoRanksWithTwoMicroBatchesInBf16) {
  const RunSpec spec =
      spec_of("vit-tiny", {"layout.dp=2", "policy.micro_batch=2", "policy.amp=bf16", "policy.bucket_mb=0.2"});
  for (int rank = 0; rank < 2; ++rank)
    compare("vit-tiny-dp2-bf16.rank" + std::to_string(rank) + ".plan",
            nets::build_plan(spec, rank, no_workspace));
}

}  // namespace
}  // namespace isobar::plan
