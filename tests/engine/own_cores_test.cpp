// Threads of a run on cores of their own: whose they are, that threads keep to them, and that it is undone.
#include "model/engine/own_cores.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include <thread>

#include "model/backend/cpu/parallel.h"
#include "model/base/cpus.h"
#include "model/engine/core_hops.h"
#include "model/engine/cpu_places.h"
#include "tests/engine/command.h"
#include "tests/engine/layouts.h"

namespace isobar {
namespace {

using Cores = std::vector<std::vector<int>>;

std::vector<int> own_mask() {
  cpu_set_t set;
  std::vector<int> out;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int c = 0; c < CPU_SETSIZE; ++c)
      if (CPU_ISSET(c, &set)) out.push_back(c);
  return out;
}

TEST(OwnCores, RanksThatShareCoresTakeTheirParts) {
  const Cores four = {{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  EXPECT_EQ(part_of_cores(four, 0, 1, 4), four);
  EXPECT_EQ(part_of_cores(four, 1, 2, 2), (Cores{{2, 6}, {3, 7}}));
  EXPECT_EQ(part_of_cores(four, 1, 2, 1), (Cores{{2, 6}, {3, 7}})) << "what is left over is for loaders";
  EXPECT_EQ(part_of_cores(four, 2, 3, 1), (Cores{{2, 6}}));
  EXPECT_EQ(part_of_cores(four, 0, 2, 3), Cores{}) << "more threads than cores";
  EXPECT_EQ(part_of_cores(four, 4, 8, 1), Cores{});
}

TEST(OwnCores, ThreadsKeepToTheirsAndTheFirstMayGoAround) {
  const std::vector<int> before = own_mask();
  const int cores = cpu_places().usable();
  if (cores < 2 || cores < cpu_places().cores || omp_get_proc_bind() != omp_proc_bind_false)
    GTEST_SKIP() << "one core, a quota, or bound already";
  std::vector<std::vector<int>> masks(static_cast<size_t>(cores));
  const auto look = [&] {
    cpu::on_threads(cores, [&](int t, int) { masks[static_cast<size_t>(t)] = own_mask(); });
  };
  {
    const OwnCores own(Mpi(), cores);
    ASSERT_EQ(own.cpus().size(), static_cast<size_t>(cores));
    for (int again = 0; again < 3; ++again) {
      look();
      EXPECT_EQ(masks[0], before);
      for (size_t t = 1; t < masks.size(); ++t) EXPECT_EQ(masks[t], std::vector<int>{own.cpus()[t]});
      cpu::on_threads(1, [](int, int) {});  // a smaller team: OpenMP may end the others
    }
    std::vector<int> later;
    std::thread([&] { later = own_mask(); }).join();
    EXPECT_EQ(later, before) << "a loader's thread";
  }
  look();
  for (const std::vector<int>& mask : masks) EXPECT_EQ(mask, before);
}

// OMP_PROC_BIND binds the first thread before main: the process has all cores all the same.
TEST(OwnCores, OpenMPsOwnBindingHidesNoCores) {
  const auto threads_with = [](const Words& environment) {
    const Folder dir;
    const Ended e = Child(Words{"env"} + environment +
                          train_words(tiny(), {"run.out=" + dir / "run", "train.steps=3"}, {}))
                        .wait();
    EXPECT_EQ(e.code, 0) << e.text;
    return read_run(dir / "run").start.at("threads").get<int>();
  };
  EXPECT_EQ(threads_with({"OMP_PROC_BIND=true", "OMP_PLACES=cores"}), threads_with({}));
}

TEST(CoreHops, ARoundTripTakesTensToHundredsOfNanoseconds) {
  const std::vector<int> cpus = process_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "one CPU";
  const auto trip = core_round_trip_ns(cpus);
  ASSERT_TRUE(trip);
  EXPECT_GT(*trip, 5);
  EXPECT_LT(*trip, 1e5);
  EXPECT_FALSE(core_round_trip_ns({cpus[0]}));
  EXPECT_FALSE(core_round_trip_ns({cpus[0], 1023})) << "no such CPU";
  EXPECT_EQ(own_mask(), cpus) << "the caller is not bound";
}

}  // namespace
}  // namespace isobar
