// `isobar train --rank-output`: destination of each rank's lines, and that none is lost when a rank dies.
#include <set>

#include "tests/engine/command.h"

namespace isobar::engine {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}
std::string tag(int rank) {
  return "[rank " + std::to_string(rank) + " " + host_name() + "] ";
}

Words sets(const std::string& out, const Words& more = {}) {
  return Words{"train.steps=4", "run.threads=1", "run.out=" + out} + more;
}

/// Losses by step in a text of lines such as "step      2/4  loss 1.23456 …".
std::map<int64_t, std::string> printed_losses(const std::vector<std::string>& lines,
                                              const std::string& start) {
  std::map<int64_t, std::string> out;
  for (const std::string& line : lines)
    if (line.starts_with(start + "step ")) {
      const std::string rest = line.substr(start.size());
      out[std::atoll(rest.c_str() + 5)] = rest.substr(rest.find("loss ") + 5, 7);
    }
  return out;
}

std::string written(double loss) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5f", loss);
  return text;
}

TEST(RankOutput, AllTagsEveryLineOfEveryRank) {
  const Folder dir;
  const Ended e = train_command(sets(dir / "run"),
                                {"--ranks", "3", "--set", "train.global_batch=12", "--rank-output", "all"});
  ASSERT_EQ(e.code, 0) << e.text;
  const auto lines = lines_of(e.text);
  const auto losses = read_run(dir / "run").losses;
  ASSERT_EQ(losses.size(), 4u);
  for (int rank = 0; rank < 3; ++rank) {
    const auto printed = printed_losses(lines, tag(rank));
    ASSERT_EQ(printed.size(), 4u) << e.text;
    for (const auto& [step, loss] : losses) EXPECT_EQ(printed.at(step), written(loss)) << "rank " << rank;
    const std::string place =
        tag(rank) + "rank " + std::to_string(rank) + " of 3: dp " + std::to_string(rank) + ",";
    EXPECT_NE(e.text.find(place), std::string::npos) << e.text;
  }
  for (const std::string& line : lines)
    EXPECT_TRUE(line.starts_with(tag(0)) || line.starts_with(tag(1)) || line.starts_with(tag(2))) << line;
  EXPECT_FALSE(fs::exists(dir / "run/ranks"));
}

TEST(RankOutput, FirstIsRankZeroUntagged) {
  const Folder dir;
  const Ended e = train_command(sets(dir / "run"), {"--ranks", "2"});
  ASSERT_EQ(e.code, 0) << e.text;
  EXPECT_EQ(printed_losses(lines_of(e.text), "").size(), 4u);
  EXPECT_EQ(e.text.find("[rank"), std::string::npos);
  size_t steps = 0;
  for (const std::string& line : lines_of(e.text)) steps += line.starts_with("step ");
  EXPECT_EQ(steps, 4u) << e.text;
}

// One file a rank with its steps, appended by a resumed training; rank 0 still prints to the screen.
TEST(RankOutput, FilesAreOfOneRankEachAndGoOnWithTheTraining) {
  const Folder dir;
  const std::string run = dir / "run";
  const Words files = {"--ranks", "2", "--rank-output", "files"};
  const Ended first = train_command(sets(run, {"train.checkpoint_every=2", "train.steps=2"}), files);
  ASSERT_EQ(first.code, 0) << first.text;
  const Ended e =
      train_command(sets(run, {"train.checkpoint_every=2", "train.steps=4"}), files + Words{"--resume", run});
  ASSERT_EQ(e.code, 0) << e.text;
  EXPECT_EQ(printed_losses(lines_of(first.text), "").size(), 2u);
  EXPECT_EQ(printed_losses(lines_of(e.text), "").size(), 2u);
  EXPECT_EQ(e.text.find("[rank"), std::string::npos) << e.text;
  const auto losses = read_run(run).losses;
  for (int rank = 0; rank < 2; ++rank) {
    const auto lines = lines_of(text_of(run + "/ranks/rank-000" + std::to_string(rank) + ".log"));
    ASSERT_FALSE(lines.empty());
    EXPECT_TRUE(lines[0].starts_with(tag(rank))) << lines[0];
    const auto printed = printed_losses(lines, "");
    ASSERT_EQ(printed.size(), 4u);
    for (const auto& [step, loss] : losses) EXPECT_EQ(printed.at(step), written(loss));
  }
  // A rejected second training must not write into these files; mpiexec starts it, so that the ranks
  // themselves are rejected.
  const auto kept = text_of(run + "/ranks/rank-0001.log");
  const Ended other = Child(mpiexec(2) + train_words(tiny(), sets(run), {"--rank-output", "files"})).wait();
  EXPECT_EQ(other.code, 2) << other.text;
  EXPECT_NE(other.text.find("'run.out'"), std::string::npos) << other.text;
  EXPECT_EQ(text_of(run + "/ranks/rank-0001.log"), kept);
}

// When ranks are killed in the middle of a step, all lines that result.jsonl records have arrived.
TEST(RankOutput, OutlivesARankThatIsKilled) {
  const Folder dir;
  const std::string run = dir / "run";
  Child child(
      train_words(tiny(), sets(run, {"train.steps=1000000"}), {"--ranks", "2", "--rank-output", "files"}));
  ASSERT_TRUE(reached(child, run, 5));
  const auto ranks = ranks_of(child.pid());
  ASSERT_EQ(ranks.size() >= 2, true);
  std::set<int> seen;
  for (const pid_t p : ranks) seen.insert(rank_of(p));
  EXPECT_EQ(seen, (std::set<int>{0, 1}));
  for (const pid_t p : ranks)
    if (rank_of(p) == 1) ::kill(p, SIGKILL);
  const Ended e = child.wait(kQuickly);
  EXPECT_NE(e.code, 0);
  const auto losses = read_run(run).losses;
  const auto printed = printed_losses(lines_of(text_of(run + "/ranks/rank-0000.log")), "");
  ASSERT_GE(losses.size(), 5u);
  for (const auto& [step, loss] : losses) {
    if (step == losses.rbegin()->first) continue;  // logged before it is printed
    ASSERT_TRUE(printed.contains(step)) << step;
    EXPECT_EQ(printed.at(step), written(loss));
  }
  for (const pid_t p : ranks) EXPECT_TRUE(gone(p));
}

TEST(RankOutput, AFailureIsTaggedAndItsExitCodeKept) {
  const Folder dir;
  const Ended e = train_command(sets(dir / "run", {"train.lr=1e30", "train.steps=50"}),
                                {"--ranks", "2", "--rank-output", "all"});
  EXPECT_EQ(e.code, 3) << e.text;
  EXPECT_TRUE(e.text.find(tag(0) + "isobar: rank 0: step") != std::string::npos ||
              e.text.find(tag(1) + "isobar: rank 1: step") != std::string::npos)
      << e.text;
}

TEST(RankOutput, RefusesWhatItWouldIgnore) {
  const Folder dir;
  for (const auto& [set, words, says] :
       {std::tuple{sets(dir / "a"), Words{"--rank-output", "all", "--json"}, "--json prints none"},
        {sets(dir / "a"), Words{"--rank-output", "files", "--json"}, "--json prints none"},
        {Words{"train.steps=4"}, Words{"--rank-output", "files"}, "run.out is empty"},
        {sets(dir / "a"), Words{"--rank-output", "some"}, "not in {first,all,files}"}}) {
    const Ended e = train_command(set, words);
    EXPECT_EQ(e.code, 2) << e.text;
    EXPECT_NE(e.text.find(says), std::string::npos) << e.text;
  }
  std::ofstream(dir / "b") << "a file where the folder should be";
  EXPECT_EQ(train_command(sets(dir / "b/run"), {"--rank-output", "files"}).code, 2);
  const Ended full = Child({"bash", "-c",
                            command() + " train " + tiny() +
                                " --set train.steps=2 --set run.threads=1 --rank-output all >/dev/full"})
                         .wait();
  EXPECT_EQ(full.code, 1) << full.text;
  EXPECT_NE(full.text.find("standard output: cannot be written"), std::string::npos) << full.text;
}

}  // namespace
}  // namespace isobar::engine
