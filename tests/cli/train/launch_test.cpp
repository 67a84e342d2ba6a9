// Processes that a launcher started and that MPI does not join: one line and exit code 2 from each, and no
// output, since all would train as rank 0 of 1.
#include <algorithm>
#include <filesystem>

#include "tests/cli/shell.h"

namespace isobar::cli {
namespace {

class Launched : public InDirectory {
 protected:
  /// One process, with these words in front of its command.
  void expect_refused(const std::string& environment, const std::string& says) {
    for (const char* command : {"train base.yaml --set run.out=out", "calibrate -o m.yaml"}) {
      const Answer a = shell(at(environment + " " + isobar_command() + " " + command + " 2>&1"));
      EXPECT_EQ(a.code, 2) << a.out;
      EXPECT_EQ(std::count(a.out.begin(), a.out.end(), '\n'), 1) << a.out;
      EXPECT_NE(a.out.find(says), std::string::npos) << a.out;
    }
    EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
    EXPECT_FALSE(std::filesystem::exists(dir_ / "m.yaml"));
  }
  static std::string found(const std::string& program) {
    std::string path = shell("command -v " + program).out;
    while (path.ends_with('\n')) path.pop_back();
    return path;
  }
};

TEST_F(Launched, WithoutPmiIsRefused) {
  expect_refused("SLURM_STEP_NUM_TASKS=4", "srun has started 4 processes");
}

TEST_F(Launched, UnderTorchrunsVariablesIsRefused) {
  expect_refused("WORLD_SIZE=4 RANK=1 LOCAL_RANK=1 TORCHELASTIC_RUN_ID=none", "torchrun has started 4");
  expect_refused("WORLD_SIZE=4 RANK=1", "torchrun has started 4");  // as others set them, or by hand
}

TEST_F(Launched, UnderPmiThatMpiDoesNotSpeakIsRefused) {
  expect_refused("PMI_SIZE=3 PMI_RANK=0", "has started 3 processes");
}

// Open MPI's mpiexec waits for ever where it can open no further pipe.
TEST_F(Launched, WithTooFewOpenFilesIsRefused) {
  const Answer a = shell(at("ulimit -n 32 && timeout -s KILL 60 " + isobar_command() +
                            " train base.yaml --ranks 2 --set run.out=out 2>&1"));
  EXPECT_EQ(a.code, 2) << a.out;
  EXPECT_NE(a.out.find("ulimit -n"), std::string::npos) << a.out;
  EXPECT_EQ(std::count(a.out.begin(), a.out.end(), '\n'), 1) << a.out;
  const Answer soft = shell(at("ulimit -Sn 32 && timeout -s KILL 60 " + isobar_command() +
                               " train base.yaml --ranks 2 2>&1"));  // which the command may raise
  EXPECT_EQ(soft.code, 0) << soft.out;
}

TEST_F(Launched, ByTheOtherMpisMpiexecIsRefused) {
  const bool open_mpi = shell(isobar_command() + " doctor").out.find("Open MPI") != std::string::npos;
  const std::string other = found(open_mpi ? "mpiexec.mpich" : "mpiexec.openmpi");
  if (other.empty()) GTEST_SKIP() << "no other MPI's mpiexec here";
  const Answer a = shell(at(other + " -n 2 " + isobar_command() + " train base.yaml --set run.out=out 2>&1"));
  EXPECT_NE(a.code, 0) << a.out;
  size_t lines = 0;
  for (size_t i = a.out.find("has started 2 processes"); i != std::string::npos;
       i = a.out.find("has started 2 processes", i + 1))
    ++lines;
  EXPECT_EQ(lines, 2u) << a.out;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
}

}  // namespace
}  // namespace isobar::cli
