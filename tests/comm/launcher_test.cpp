// Launchers, recognised by their variables and compared with MPI's world.
#include "model/comm/launcher.h"

#include <gtest/gtest.h>

#include <map>

#include "model/base/error.h"
#include "model/comm/comm.h"

namespace isobar::comm {
namespace {

using Variables = std::map<std::string, std::string>;

Environment in(const Variables& v) {
  return [&v](const char* name) {
    const auto at = v.find(name);
    return at == v.end() ? nullptr : at->second.c_str();
  };
}

TEST(Launcher, RanksThatAreBoundApartShareNoCores) {
  const auto on = [](const std::vector<int>& cores) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int c : cores) CPU_SET(c, &set);
    return set;
  };
  EXPECT_EQ(sharing_cores({on({0, 1}), on({0, 1})}, 0), 2);
  EXPECT_EQ(sharing_cores({on({0, 1}), on({2, 3}), on({2, 3})}, 0), 1);
  EXPECT_EQ(sharing_cores({on({0, 1}), on({2, 3}), on({2, 3})}, 2), 2);
  EXPECT_EQ(sharing_cores({on({}), on({})}, 1), 1);  // unknown
  EXPECT_EQ(order_on_cores({on({0, 1}), on({2, 3}), on({0, 1})}, 0), 0);
  EXPECT_EQ(order_on_cores({on({0, 1}), on({2, 3}), on({0, 1})}, 1), 0);
  EXPECT_EQ(order_on_cores({on({0, 1}), on({2, 3}), on({0, 1})}, 2), 1);
  EXPECT_EQ(order_on_cores({on({0, 1}), on({1, 2})}, 1), -1);
}

std::string refusal(const Variables& v, int64_t mpi_size) {
  const Launch launch = launch_of(in(v));
  try {
    check_joined(launch, "Open MPI v4.1.4");
    check_launch(launch, mpi_size, "Open MPI v4.1.4");
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(Launcher, ProcessesThatCannotFindEachOtherAreRefusedByNameWithTheMend) {
  struct Case {
    Variables environment;
    std::vector<std::string> said;
  };
  for (const Case& c : std::vector<Case>{
           {{{"SLURM_STEP_NUM_TASKS", "4"}}, {"SLURM_STEP_NUM_TASKS", "srun has started 4", "--mpi=pmix"}},
           {{{"SLURM_STEP_NUM_TASKS", "4"}, {"PMIX_RANK", "2"}}, {"srun has started 4", "sees 1"}},
           {{{"PMI_SIZE", "3"}, {"PMI_RANK", "0"}},
            {"PMI_SIZE", "3 processes", "mpiexec of Open MPI v4.1.4"}},
           {{{"OMPI_COMM_WORLD_SIZE", "2"}}, {"Open MPI's mpiexec has started 2", "sees 1"}},
           {{{"PALS_SIZE", "96"}, {"PALS_RANKID", "3"}}, {"PALS' mpiexec has started 96"}},
           {{{"WORLD_SIZE", "8"}, {"TORCHELASTIC_RUN_ID", "none"}}, {"torchrun has started 8", "--ranks 8"}},
           {{{"WORLD_SIZE", "4"}, {"RANK", "1"}}, {"WORLD_SIZE", "torchrun has started 4", "--ranks 4"}},
           {{{"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}}, {"torchrun has started 4"}},
           {{{"HOROVOD_SIZE", "2"}, {"HOROVOD_RANK", "0"}}, {"horovodrun has started 2", "--ranks 2"}},
           {{{"JSM_NAMESPACE_SIZE", "6"}}, {"jsrun has started 6"}},
           // A nested launcher that the MPI does not know
           {{{"PMI_SIZE", "4"}, {"PMI_RANK", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}},
            {"4 processes", "sees 1"}}}) {
    const std::string said = refusal(c.environment, 1);
    for (const std::string& part : c.said)
      EXPECT_NE(said.find(part), std::string::npos) << part << ": " << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
    EXPECT_TRUE(launch_of(in(c.environment)).started());
  }
}

TEST(Launcher, WhatOneOfThemSaysIsEnough) {
  // Open MPI's own daemons are a step of one process a node.
  EXPECT_EQ(refusal({{"OMPI_COMM_WORLD_SIZE", "8"}, {"SLURM_STEP_NUM_TASKS", "2"}}, 8), "");
  EXPECT_EQ(refusal({{"PMI_SIZE", "4"}, {"PMI_FD", "9"}, {"SLURM_STEP_NUM_TASKS", "4"}}, 4), "");
  EXPECT_EQ(refusal({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}}, 4), "");
  EXPECT_EQ(refusal({{"PMIX_RANK", "0"}}, 4), "");  // gives no size
  // A separate run within each task of a step
  EXPECT_EQ(refusal({{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}}, 1), "");
}

TEST(Launcher, AShellWithinAStepOrWithSomebodysVariablesIsNoLaunch) {
  for (const Variables& v : std::vector<Variables>{
           {}, {{"WORLD_SIZE", "8"}}, {{"SLURM_STEP_NUM_TASKS", "1"}}, {{"SLURM_NTASKS", "4"}}}) {
    EXPECT_FALSE(launch_of(in(v)).started());
    EXPECT_EQ(refusal(v, 1), "");
  }
}

TEST(Launcher, AnMpiIsNamedInAFewWords) {
  EXPECT_EQ(short_version("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4"),
            "Open MPI v4.1.4");
  EXPECT_EQ(
      short_version("MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 2022\nMPICH ABI:\t14:2:2\n"),
      "MPICH 4.0.2");
  EXPECT_EQ(
      short_version("MPI VERSION    : CRAY MPICH version 8.1.25.17 (ANL base 3.4a2)\nMPI BUILD INFO : Fri\n"),
      "MPI VERSION CRAY MPICH version 8.1.25.17 (ANL base 3.4a2)");
  EXPECT_EQ(short_version("Intel(R) MPI Library 2021.9 for Linux* OS\n"),
            "Intel(R) MPI Library 2021.9 for Linux* OS");
}

}  // namespace
}  // namespace isobar::comm
