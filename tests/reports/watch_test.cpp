// A sweep as `isobar watch` sees it: from files alone.
#include "reports/watch.h"

#include <gtest/gtest.h>

#include "tests/reports/fixture.h"

namespace isobar {
namespace {

TEST(Watch, NamesContendedTrialsAndTheFastestByTheStatisticOfItsSteps) {
  TempDir dir;
  MadeUpResults made(dir.path);
  nlohmann::json matrix = {{"schema", 1}, {"trials", nlohmann::json::array()}};
  for (int i = 0; i < 8; ++i) {
    const std::string id = "trial" + std::to_string(i);
    made.write_timed(id, MadeUpResults::spec(1, "none", i), 0.02 + 0.01 * i, i == 5 ? 0.5 : 0.01);
    matrix["trials"].push_back(
        {{"id", id}, {"ranks", 1}, {"repetition", 0}, {"axes", {{"data.workers", i}}}});
  }
  write_atomically(dir.path / "sweep.json", matrix.dump());
  SweepWatch watch(dir.path);
  watch.refresh();
  for (const WatchedTrial& t : watch.state().trials) {
    EXPECT_EQ(t.state, "ok");
    EXPECT_EQ(t.contention.marked, t.id == "trial5") << t.id;
  }
  ASSERT_NE(watch.state().fastest(), nullptr);
  EXPECT_EQ(watch.state().fastest()->id, "trial0");
  const std::string text = frame(watch.state(), {.width = 120, .rows = 40});
  EXPECT_NE(text.find("(1 contended)"), std::string::npos) << text;
  EXPECT_NE(text.find(title_of(kStatistic)), std::string::npos) << text;
}

}  // namespace
}  // namespace isobar
