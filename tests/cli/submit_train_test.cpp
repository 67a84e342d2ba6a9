// `isobar train --launcher`: errors before anything is submitted, each one line with the fix.
#include "tests/cli/shell.h"

namespace isobar {
namespace {

class SubmitTrain : public InDirectory {
 protected:
  void SetUp() override {
    InDirectory::SetUp();
    machine("here.yaml", "{scheduler: slurm}");
  }
  void machine(const std::string& name, const std::string& cluster) {
    write_atomically(dir_ / name,
                     "inherits: " + shipped("machines/example-2core.yaml") + "\ncluster: " + cluster + "\n");
  }
  Answer train(const std::string& options) const {
    return shell(at(isobar_command() + " train base.yaml " + options + " 2>&1"));
  }
};

TEST_F(SubmitTrain, RefusesWhatCouldNotGoOn) {
  const std::string every = " --set train.checkpoint_every=1", here = " --launcher slurm --machine here.yaml",
                    to = " --results out";
  machine("short.yaml", "{scheduler: slurm, max_time_s: 60, job_time_s: 60}");
  for (const auto& [options, words] : std::vector<std::pair<std::string, std::string>>{
           {here + to, "train.checkpoint_every"},
           {" --launcher slurm" + to + every, "--machine"},
           {here + every, "--results"},
           {" --launcher pbs --machine here.yaml" + to + every, "cluster.scheduler"},
           {" --launcher slurm --machine short.yaml" + to + every, "cluster.max_time_s"},
           {here + to + every + " --set run.out=elsewhere", "run.out"},
           {here + to + every + " --trace t.json", "--trace"},
           {here + to + every + " --resume elsewhere", "--resume"},
           {here + to + every + " --ranks 3 --set layout.tp=2", "--ranks"},
           {to + every, "--results"},
           {" --no-wait", "--no-wait"}}) {
    const Answer a = train(options);
    EXPECT_EQ(a.code, 2) << options << "\n" << a.out;
    EXPECT_NE(a.out.find(words), std::string::npos) << options << "\n" << a.out;
    EXPECT_NE(a.out.find(" -> "), std::string::npos) << a.out;
    size_t said = 0;
    for (size_t at = a.out.find("isobar: "); at != std::string::npos; at = a.out.find("isobar: ", at + 1))
      ++said;
    EXPECT_EQ(said, 1u) << a.out;
  }
  const Answer ranks = shell(at("mpiexec --allow-run-as-root -n 1 " + isobar_command() + " train base.yaml" +
                                here + to + every + " 2>&1"));
  EXPECT_NE(ranks.code, 0);
  EXPECT_NE(ranks.out.find("one of several ranks"), std::string::npos) << ranks.out;
}

TEST_F(SubmitTrain, ADirectoryHoldsOneTraining) {
  write_atomically(dir_ / "out/sweep.json", R"({"schema": 1, "trials": [{"id": "0123456789abcdef"}]})");
  const Answer a = train("--launcher slurm --machine here.yaml --results out --set train.checkpoint_every=1");
  EXPECT_EQ(a.code, 2) << a.out;
  EXPECT_NE(a.out.find("sweep.json"), std::string::npos) << a.out;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out/jobs"));
}

}  // namespace
}  // namespace isobar
