// Names from what varies: short, in a fixed order, unique.
#include "model/records/naming.h"

#include <gtest/gtest.h>

#include <set>

namespace isobar::records {
namespace {

using nlohmann::json;

RunSpec spec(int64_t dp, int64_t tp, const std::string& amp, int64_t workers, int64_t micro_batch) {
  RunSpec s;
  s.layout.dp = dp;
  s.layout.tp = tp;
  s.policy.amp = *value_named<Amp>(amp);
  s.data.workers = workers;
  s.policy.micro_batch = micro_batch;
  return s;
}

TEST(Naming, SaysWhatVariesInOneOrderAndNothingElse) {
  const RunSpec a = spec(2, 1, "bf16", 2, 4), b = spec(1, 2, "none", 0, 0);
  const Names n = name_by_difference({{.spec = &a}, {.spec = &b}});
  EXPECT_EQ(n.names, (std::vector<std::string>{"dp2 tp1 bf16 w2 mb4", "dp1 tp2 fp32 w0 mb-all"}));
  EXPECT_EQ(n.layouts, (std::vector<std::string>{"dp2 tp1", "dp1 tp2"}));
  EXPECT_EQ(n.labels, n.names);
  // tp no longer varies and disappears from the names
  const RunSpec c = spec(1, 1, "bf16", 2, 4);
  EXPECT_EQ(name_by_difference({{.spec = &a}, {.spec = &c}}).names, (std::vector<std::string>{"dp2", "dp1"}));
}

TEST(Naming, DividedExpertsArePartOfTheLayout) {
  const RunSpec a = spec(2, 1, "none", 0, 0);
  RunSpec b = a;
  b.layout.ep = 2;
  EXPECT_EQ(name_by_difference({{.spec = &a}, {.spec = &b}}).names, (std::vector<std::string>{"dp2", "ep2"}));
}

TEST(Naming, AFixedLayoutIsNoPartOfTheName) {
  const RunSpec a = spec(1, 2, "bf16", 0, 4), b = spec(1, 2, "none", 0, 4);
  const Names n = name_by_difference({{.spec = &a}, {.spec = &b}});
  EXPECT_EQ(n.names, (std::vector<std::string>{"bf16", "fp32"}));
  EXPECT_EQ(n.layouts, (std::vector<std::string>{"tp2", "tp2"}));
}

TEST(Naming, OfASweepOnlyItsAxesCount) {
  RunSpec a = spec(1, 1, "bf16", 0, 4), b = spec(1, 1, "none", 0, 4);
  b.train.lr = 1;  // differs in the file but is not an axis
  const json x = {{"policy.amp", "bf16"}}, y = {{"policy.amp", "none"}};
  EXPECT_EQ(name_by_difference({{.spec = &a, .axes = &x}, {.spec = &b, .axes = &y}}).names,
            (std::vector<std::string>{"bf16", "fp32"}));
}

TEST(Naming, RepetitionsRepeatsAndRunsAlikeAreToldApart) {
  const RunSpec a = spec(1, 1, "bf16", 0, 4), b = spec(2, 1, "bf16", 0, 4);
  const Names n = name_by_difference({{.spec = &a, .repetition = 1},
                                      {.spec = &a, .repetition = 0},
                                      {.spec = &a, .repetition = 0, .again = true},
                                      {.spec = &b}});
  EXPECT_EQ(n.labels, (std::vector<std::string>{"dp1 #2", "dp1 #1", "dp1 #1 again", "dp2"}));
  EXPECT_EQ(n.names, (std::vector<std::string>{"dp1", "dp1", "dp1", "dp2"}));
  EXPECT_EQ(name_by_difference({{.spec = &a}, {.spec = &a}}).labels,
            (std::vector<std::string>{"base #1", "base #2"}));
  EXPECT_EQ(name_by_difference({{.spec = &a, .set = "old"}, {.spec = &a, .set = "new"}}).labels,
            (std::vector<std::string>{"old", "new"}));
}

TEST(Naming, KeysOfOneLastWordAreSaidWhole) {
  RunSpec a = spec(1, 1, "bf16", 0, 4), b = a;
  b.data.train = "/somewhere/else/era5";
  b.run.out = "elsewhere";  // ignored difference
  b.train.seed = 7;
  const Names n = name_by_difference({{.spec = &a}, {.spec = &b}});
  EXPECT_EQ(n.varied, std::vector<std::string>{"data.train"});
  EXPECT_EQ(n.names, (std::vector<std::string>{"train=", "train=era5"}));
}

}  // namespace
}  // namespace isobar::records
