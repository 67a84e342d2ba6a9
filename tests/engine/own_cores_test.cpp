// Binding a run's threads to cores: which cores they get, that threads stay on them, and that it is undone.
#include "model/engine/host/own_cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <thread>

#include "model/backend/cpu/parallel.h"
#include "model/engine/host/cpu_places.h"
#include "tests/engine/command.h"
#include "tests/engine/layouts.h"

namespace isobar::engine {
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

// Under a quota or the user's own binding the test expects no binding.
TEST(OwnCores, ThreadsKeepToTheirsAndTheFirstMayGoAround) {
  const std::vector<int> before = own_mask();
  const CpuPlaces places = cpu_places();
  bool binds = places.usable() == places.cores;
  for (const char* name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"}) binds &= !std::getenv(name);
  const int threads = places.usable();
  std::vector<std::vector<int>> masks(static_cast<size_t>(threads));
  const auto look = [&] {
    cpu::on_threads(threads, [&](int t, int) { masks[static_cast<size_t>(t)] = own_mask(); });
    return masks;
  };
  const std::vector<std::vector<int>> free = look();
  {
    const OwnCores own(comm::Mpi(), threads);
    ASSERT_EQ(own.cpus().size(), binds ? static_cast<size_t>(threads) : 0);
    for (int again = 0; again < 3; ++again) {
      std::vector<std::vector<int>> expected = free;
      for (size_t t = 1; t < own.cpus().size(); ++t) expected[t] = {own.cpus()[t]};
      EXPECT_EQ(look(), expected);
      cpu::on_threads(1, [](int, int) {});  // a smaller team: OpenMP may end the others
    }
    std::vector<int> later;
    std::thread([&] { later = own_mask(); }).join();
    EXPECT_EQ(later, before) << "a loader's thread";
  }
  EXPECT_EQ(look(), free);
}

// OMP_PROC_BIND binds the first thread before main; the process must still see all cores.
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

}  // namespace
}  // namespace isobar::engine
