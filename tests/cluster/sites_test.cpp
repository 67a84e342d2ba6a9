// Shipped machine files that describe job submission: the job script and start command must have the words
// that each site's documentation requires.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "bench/cluster/cluster.h"
#include "bench/cluster/placement.h"
#include "bench/cluster/schedulers/scheduler.h"
#include "model/base/error.h"
#include "model/base/text/yaml.h"
#include "tests/paths.h"

namespace isobar::cluster {
namespace {

struct Site {
  std::set<std::string> lines;      // of the script of a job of two nodes
  std::set<std::string> words;      // of the command that starts its ranks
  std::vector<std::string> to_add;  // keys that the user must give
};

Site dgx(int gpus) {
  const std::string n = std::to_string(gpus);
  return {{"#SBATCH --nodes=2", "#SBATCH --ntasks-per-node=" + n, "#SBATCH --gpus-per-node=" + n,
           "#SBATCH --exclusive", "#SBATCH --mem=0"},
          {"srun", "--mpi=pmix", "--ntasks=" + std::to_string(2 * gpus), "--ntasks-per-node=" + n},
          {}};
}

Site perlmutter(const std::string& constraint) {
  return {{"#SBATCH --constraint=" + constraint, "#SBATCH --qos=regular", "#SBATCH --gpus-per-node=4",
           "#SBATCH --ntasks-per-node=4", "#SBATCH --account=Mine", "#SBATCH --exclusive"},
          {"srun", "--ntasks=8", "--cpus-per-task=32", "--cpu-bind=cores"},
          {"account"}};
}

const std::map<std::string, Site> kSites = {
    {"perlmutter", perlmutter("gpu")},
    {"perlmutter-80gb", perlmutter("gpu&hbm80g")},
    {"frontier",
     {{"#SBATCH --partition=batch", "#SBATCH --account=Mine", "#SBATCH --ntasks-per-node=8",
       "#SBATCH --gpus-per-node=8", "#SBATCH --time=02:00:00"},
      {"srun", "--ntasks=16", "--cpus-per-task=7", "--threads-per-core=1", "--gpu-bind=closest"},
      {"account"}}},
    {"aurora",
     {{"#PBS -q debug", "#PBS -A Mine", "#PBS -l filesystems=home:flare", "#PBS -k doe",
       "#PBS -l select=2:ncpus=104:mpiprocs=12", "#PBS -l place=scatter:excl", "#PBS -l walltime=01:00:00"},
      {"mpiexec", "--ppn", "12", "24",
       "--cpu-bind=list:1-8:9-16:17-24:25-32:33-40:41-48:53-60:61-68:69-76:77-84:85-92:93-100"},
      {"account"}}},
    {"dgx-v100", dgx(8)},
    {"dgx-a100-40gb", dgx(8)},
    {"dgx-a100", dgx(8)},
    {"dgx-a800", dgx(8)},
    {"dgx-h100", dgx(8)},
    {"dgx-h800", dgx(8)},
    {"dgx-h200", dgx(8)},
    {"dgx-b200", dgx(8)},
    {"dgx-b300", dgx(8)},
    {"gb200-nvl72", dgx(4)},
    {"gb300-nvl72", dgx(4)},
};

std::string file_of(const std::string& name) {
  return source_dir() + "/configs/machines/" + name + ".yaml";
}

// The keys that a user adds to a shipped file in a file that inherits it.
ClusterSpec with_account(const std::string& name) {
  nlohmann::json section = load_yaml(file_of(name)).at("cluster");
  section["account"] = "Mine";
  return cluster_from_json(section, "mine.yaml");
}

TEST(Sites, EveryMachineWithAClusterIsJudgedHere) {
  std::set<std::string> found, judged;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/configs/machines"))
    if (load_yaml(entry.path().string()).contains("cluster")) found.insert(entry.path().stem().string());
  for (const auto& [name, site] : kSites) judged.insert(name);
  EXPECT_EQ(found, judged);
}

TEST(Sites, JobsAskForWhatTheDocumentationSays) {
  for (const auto& [name, site] : kSites) {
    SCOPED_TRACE(name);
    const ClusterSpec c = site.to_add.empty() ? load_cluster(file_of(name)) : with_account(name);
    EXPECT_NO_THROW(refuse_incomplete(c));
    const JobRequest job{.name = "isobar-1",
                         .nodes = 2,
                         .time_s = static_cast<int64_t>(c.max_time_s),
                         .cwd = "/x",
                         .command = {"true"}};
    const std::string script = "\n" + scheduler_of(c.scheduler)->script(c, job);
    for (const std::string& line : site.lines)
      EXPECT_NE(script.find("\n" + line + "\n"), std::string::npos) << line << " is not in" << script;
    const auto start = start_command(c, {"a", "b"}, 2 * c.ranks_per_node, {"x"}, "t", "rankfile");
    for (const std::string& word : site.words)
      EXPECT_NE(std::find(start.begin(), start.end(), word), start.end()) << word;
  }
}

TEST(Sites, WhatAPersonHasToGiveIsRefusedWhileItIsMissing) {
  for (const auto& [name, site] : kSites) {
    SCOPED_TRACE(name);
    const ClusterSpec c = load_cluster(file_of(name));
    EXPECT_EQ(c.required, site.to_add);
    if (site.to_add.empty()) continue;
    try {
      refuse_incomplete(c);
      ADD_FAILURE() << "taken without an account";
    } catch (const ConfigError& e) {
      const std::string said = e.what();
      EXPECT_TRUE(said.starts_with(file_of(name) + ": 'cluster.account': is missing")) << said;
      EXPECT_NE(said.find("inherits: " + file_of(name)), std::string::npos) << said;
    }
  }
}

TEST(Sites, OnlyKeysThatAPersonCanGiveAreRequired) {
  EXPECT_THROW(cluster_from_json({{"required", {"start"}}}, "m.yaml"), ConfigError);
  // The constraint's & and | are Slurm's; in PBS the same text would end up inside a resource list.
  EXPECT_THROW(cluster_from_json({{"scheduler", "pbs"}, {"constraint", "a&b"}}, "m.yaml"), ConfigError);
  EXPECT_THROW(cluster_from_json({{"constraint", "a;b"}}, "m.yaml"), ConfigError);
  EXPECT_THROW(cluster_from_json({{"queue", "a&b"}}, "m.yaml"), ConfigError);
}

}  // namespace
}  // namespace isobar::cluster
