// Per-rank metrics of a run, and energy metering during training.
#include "model/engine/observers/rank_metrics.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "model/base/system/cpus.h"
#include "model/engine/executor.h"
#include "model/records/results.h"
#include "tests/engine/layouts.h"

namespace isobar::engine {
namespace {

using nlohmann::json;

// A powercap folder as Linux presents it, with counters that a test sets.
class Powercap {
 public:
  void domain(const std::string& id, const std::string& name, int64_t microjoules,
              int64_t wraps = 1000000000) {
    fs::create_directories(dir_ / id);
    write(id + "/name", name);
    write(id + "/max_energy_range_uj", std::to_string(wraps));
    write(id + "/energy_uj", std::to_string(microjoules));
  }
  void write(const std::string& file, const std::string& text) { std::ofstream(dir_ / file) << text << "\n"; }
  fs::path path() const { return dir_ / ""; }

 private:
  Folder dir_;
};

TEST(EnergyMeter, CountsPackagesAndTheirMemoryWhileItRuns) {
  Powercap p;
  p.domain("intel-rapl:0", "package-0", 5000000);
  p.domain("intel-rapl:0:0", "core", 1000000);  // part of the package
  p.domain("intel-rapl:0:1", "dram", 2000000);  // separate from the package
  p.domain("intel-rapl:1", "psys", 9000000);    // includes everything
  p.domain("intel-rapl:2", "package-1", 999999000);
  EnergyMeter meter(rapl_counters(p.path()));
  ASSERT_TRUE(meter.on()) << meter.why();
  EXPECT_EQ(meter.names(), "package-0, dram of package-0, package-1");
  meter.run();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  p.domain("intel-rapl:0", "package-0", 7000000);
  p.domain("intel-rapl:0:0", "core", 8000000);
  p.domain("intel-rapl:0:1", "dram", 2500000);
  p.domain("intel-rapl:2", "package-1", 4000);  // wrapped: 1 mJ to the end, then 4
  meter.pause();
  EXPECT_NEAR(meter.joules(), 2 + 0.5 + 0.005, 1e-9);
  EXPECT_GE(meter.seconds(), 0.02);
  const double seconds = meter.seconds();
  p.domain("intel-rapl:0", "package-0", 90000000);  // while paused
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const int64_t from = now_ns();
  meter.run();
  p.domain("intel-rapl:0", "package-0", 91000000);
  meter.pause();
  const double ran = static_cast<double>(now_ns() - from) * 1e-9;
  EXPECT_NEAR(meter.joules(), 2.505 + 1, 1e-9);
  EXPECT_LE(meter.seconds(), seconds + ran) << "the pause does not count";
  meter.run();
  p.domain("intel-rapl:0", "package-0", 92000000);
  meter.reset();
  p.domain("intel-rapl:0", "package-0", 92250000);
  meter.pause();
  EXPECT_NEAR(meter.joules(), 0.25, 1e-9) << "since it was reset";
}

TEST(EnergyMeter, SaysWhyItHasNothing) {
  Powercap p;
  const EnergyMeter none(rapl_counters(p.path()));
  EXPECT_FALSE(none.on());
  EXPECT_NE(none.why().find("no RAPL counters"), std::string::npos) << none.why();
  EXPECT_FALSE(EnergyMeter(rapl_counters(p.path() / "absent")).on());

  p.domain("intel-rapl:0", "package-0", 1);
  p.domain("intel-rapl:1", "package-1", 1);
  fs::remove(p.path() / "intel-rapl:1/energy_uj");
  const EnergyMeter half(rapl_counters(p.path()));
  EXPECT_FALSE(half.on()) << "a part would look like the whole";
  EXPECT_NE(half.why().find("intel-rapl:1/energy_uj"), std::string::npos) << half.why();

  p.domain("intel-rapl:1", "package-1", 1);
  EnergyMeter stops(rapl_counters(p.path()));
  stops.run();
  p.write("intel-rapl:0/energy_uj", "");
  stops.pause();
  EXPECT_FALSE(stops.on());
  EXPECT_EQ(stops.joules(), 0);
  EXPECT_EQ(stops.why(), "package-0 stopped answering");
}

records::RanksRecord of_rank(int64_t rank, const std::string& host) {
  return {
      .step = 9, .steps = 7, .ranks = {{.rank = rank, .host = host, .step_s = 0.5, .compute_s = 0.1 * rank}}};
}

TEST(RankMetrics, EnergyIsKnownWhereEveryRankThatMetersKnowsItsOwn) {
  std::vector<records::RanksRecord> all{of_rank(0, "a"), of_rank(1, "a"), of_rank(2, "b"), of_rank(3, "b")};
  EXPECT_FALSE(merged(all).joules_per_step);
  all[0].joules_per_step = 20, all[0].energy = "package-0";
  all[2].joules_per_step = 30, all[2].energy = "package-0";
  const records::RanksRecord both = merged(all);
  EXPECT_EQ(both.step, 9);
  EXPECT_EQ(both.steps, 7);
  ASSERT_EQ(both.ranks.size(), 4u);
  EXPECT_EQ(both.ranks[3].rank, 3);
  EXPECT_DOUBLE_EQ(both.joules_per_step.value(), 50);
  EXPECT_EQ(both.energy, "package-0 of each of 2");
  EXPECT_EQ(both.text(),
            "compute 0 (rank 0) to 300 ms (rank 3) of a step of 500 ms; 50 J a step, 100 W (package-0 of "
            "each of 2)");
  all[2].joules_per_step.reset(), all[2].energy = "nobody may read it";
  EXPECT_FALSE(merged(all).joules_per_step) << "half of it is not the whole";
  EXPECT_EQ(merged(all).energy, "nobody may read it");
}

TEST(RankMetrics, OthersHaveWhatNoRankUsedOfTheBusyCores) {
  records::RanksRecord r{.ranks = {{.rank = 0, .used_cores = 0.75, .cores = 4, .busy_cores = 3.5},
                                   {.rank = 1, .used_cores = 0.75},
                                   {.rank = 2, .used_cores = 1, .cores = 4, .busy_cores = 1}}};
  EXPECT_DOUBLE_EQ(r.taken().value(), 0.25);
  r.ranks[1].used_cores.reset();
  EXPECT_FALSE(r.taken()) << "its work would be others'";
  EXPECT_FALSE(records::RanksRecord{}.taken());
}

/// Processes that compute for nothing, twice as many as there are cores; they end with this one
class BusyProcesses {
 public:
  BusyProcesses() {
    for (size_t i = 0; i < 2 * process_cpus().size(); ++i) {
      pids_.push_back(::fork());
      if (pids_.back() != 0) continue;
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (volatile int spin = 0;; ++spin) {
      }
    }
  }
  ~BusyProcesses() {
    for (const pid_t p : pids_) ::kill(p, SIGKILL), ::waitpid(p, nullptr, 0);
  }
  BusyProcesses(const BusyProcesses&) = delete;
  BusyProcesses& operator=(const BusyProcesses&) = delete;

 private:
  std::vector<pid_t> pids_;
};

TEST(RankMetrics, ARunBesideBusyProcessesSaysWhatTheyTook) {
  const Folder dir;
  {
    const BusyProcesses others;
    trained_to(dir / "run", {"train.steps=30", "train.checkpoint_every=30"}, 1, 30);
  }
  const records::RanksRecord r = records::load_runs(dir / "run").at(0).ranks_record;
  EXPECT_GT(r.taken().value(), 0.25);
  EXPECT_GT(r.ranks.at(0).used_cores.value(), 0);
  EXPECT_LT(r.ranks.at(0).busy_cores.value(), 1.3 * r.ranks.at(0).cores.value()) << "ticks are rounded";
}

TEST(RankMetrics, EveryRankSaysWhatItsStepsWereSpentOn) {
  const Folder dir;
  trained_to(dir / "run", {"layout.dp=2", "train.checkpoint_every=5"}, 2, 10);
  std::vector<json> lines, reported;
  std::ifstream file(fs::path(dir / "run") / "result.jsonl");
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  std::copy_if(lines.begin(), lines.end(), std::back_inserter(reported),
               [](const json& line) { return line["event"] == "ranks"; });
  ASSERT_EQ(reported.size(), 2u) << "after the checkpoint of step 5 and at the end";
  EXPECT_EQ(reported[0]["step"], 5);
  EXPECT_EQ(reported[1]["step"], 10);
  EXPECT_EQ(reported[1]["steps"], 8) << "without warm-up";
  double mean = 0;
  for (const json& line : lines)
    if (line["event"] == "step" && line["step"] > 2) mean += line["seconds"].get<double>() / 8;
  for (int64_t rank = 0; rank < 2; ++rank) {
    const json& one = reported[1]["ranks"].at(static_cast<size_t>(rank));
    EXPECT_EQ(one["rank"], rank);
    EXPECT_FALSE(one["host"].get<std::string>().empty());
    EXPECT_GT(one["compute_s"], 0);
    EXPECT_LT(one["compute_s"], one["step_s"]);
    EXPECT_GT(one["peak_rss_bytes"], 1000000);
    EXPECT_NEAR(one["step_s"].get<double>(), mean, 0.2 * mean) << "both go in step";
  }
  EXPECT_TRUE(reported[1].contains("energy")) << "what was metered, or why nothing was";
}

}  // namespace
}  // namespace isobar::engine
