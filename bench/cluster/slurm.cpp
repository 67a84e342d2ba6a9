// Slurm, through sbatch, squeue, sacct, scancel and scontrol. Where the cluster keeps no accounting, squeue
// and scontrol still know a job for MinJobAge (300 s by default) after its end.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "bench/cluster/command.h"
#include "bench/cluster/scheduler.h"
#include "model/base/error.h"

namespace isobar {
namespace {

std::vector<std::string> split(const std::string& line, char at) {
  std::vector<std::string> out;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, at);) out.push_back(field);
  return out;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

JobPhase phase_of(const std::string& state) {
  for (const char* s :
       {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
    if (state == s) return JobPhase::waiting;
  for (const char* s :
       {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})
    if (state == s) return JobPhase::running;
  return JobPhase::ended;
}

class Slurm : public Scheduler {
 public:
  std::string script(const ClusterSpec& c, const JobRequest& job) const override {
    return slurm_script(c, job);
  }

  std::string submit(const ClusterSpec& c, const std::filesystem::path& dir,
                     const std::string& file) override {
    const Said s = say({"sbatch", "--parsable", file}, {.cwd = dir, .timeout_s = 120});
    if (s.code != 0)
      throw ConfigError(c.file, "cluster", "sbatch refused the job: " + first_line(s.err),
                        "mend the section, or see " + (dir / file).string());
    return split(first_line(s.out), ';').at(0);  // "12" or "12;cluster"
  }

  std::optional<std::vector<JobWord>> ask(const std::vector<JobKey>& jobs) override {
    std::string names;
    for (const JobKey& k : jobs) names += (names.empty() ? "" : ",") + k.name;
    const Said s = say({"squeue", "--noheader", "--states=all", "--format=%i|%j|%T|%r", "--name=" + names});
    if (s.code != 0) return std::nullopt;
    std::map<std::string, JobWord> known;  // by name, which is unique
    std::istringstream lines(s.out);
    for (std::string line; std::getline(lines, line);) {
      const auto f = split(line, '|');
      if (f.size() < 3) continue;
      known[f[1]] = {phase_of(f[2]), f[0], f[2], f.size() > 3 ? f[3] : ""};
    }
    std::vector<JobWord> words;
    std::vector<size_t> forgotten;
    for (const JobKey& k : jobs) {
      const auto it = known.find(k.name);
      if (it == known.end()) forgotten.push_back(words.size());
      words.push_back(it == known.end() ? JobWord{} : it->second);
    }
    if (!forgotten.empty()) ask_accounting(jobs, forgotten, words);
    return words;
  }

  void cancel(const std::string& id) override { say({"scancel", id}); }

  std::optional<std::map<std::string, std::vector<JobLife>>> accounts(
      const std::vector<std::string>& ids) override {
    std::string all;
    for (const std::string& id : ids) all += (all.empty() ? "" : ",") + id;
    const Said s = say({"sacct", "--noheader", "--parsable2", "--allocations", "--duplicates",
                        "--format=JobIDRaw,State,ElapsedRaw,NNodes,NodeList", "--jobs=" + all});
    if (s.code != 0) return std::nullopt;
    std::map<std::string, std::vector<JobLife>> lives;
    std::istringstream lines(s.out);
    for (std::string line; std::getline(lines, line);)
      if (const auto f = split(line, '|'); f.size() == 5)
        lives[f[0]].push_back({.state = f[1],
                               .elapsed_s = std::atof(f[2].c_str()),
                               .nodes = std::atoll(f[3].c_str()),
                               .where = f[4],
                               .over = phase_of(f[1]) == JobPhase::ended || f[1] == "REQUEUED"});
    return lives;
  }

  std::string own_id() const override { return variable("SLURM_JOB_ID"); }

  std::vector<std::string> own_nodes() const override {
    const Said s = say({"scontrol", "show", "hostnames", variable("SLURM_JOB_NODELIST")});
    if (s.code != 0)
      throw std::runtime_error("scontrol does not say which nodes this job has: " + first_line(s.err));
    return split(s.out, '\n');
  }

  void clear(const std::string& trial) override {
    const Said s = say({"squeue", "--noheader", "--steps", "--format=%i|%j", "--job=" + own_id()});
    std::istringstream lines(s.out);
    for (std::string line; std::getline(lines, line);) {
      const auto f = split(line, '|');
      if (f.size() == 2 && f[1] == trial) say({"scancel", "--signal=KILL", f[0]});
    }
  }

 private:
  // What squeue has forgotten, sacct may know.
  static void ask_accounting(const std::vector<JobKey>& jobs, const std::vector<size_t>& which,
                             std::vector<JobWord>& words) {
    std::string ids;
    for (size_t i : which)
      if (!jobs[i].id.empty()) ids += (ids.empty() ? "" : ",") + jobs[i].id;
    std::map<std::string, std::string> states;
    if (!ids.empty()) {
      const Said s = say({"sacct", "--noheader", "--parsable2", "--allocations", "--format=JobIDRaw,State",
                          "--jobs=" + ids});
      std::istringstream lines(s.code == 0 ? s.out : "");  // an error: no accounting here
      for (std::string line; std::getline(lines, line);)
        if (const auto f = split(line, '|'); f.size() == 2) states[f[0]] = f[1];
    }
    for (size_t i : which) {
      if (jobs[i].id.empty()) continue;  // never heard of it
      const auto it = states.find(jobs[i].id);
      // squeue answered and does not list it: it is over, whoever remembers how it went
      words[i] = it == states.end() ? JobWord{JobPhase::ended, jobs[i].id, "forgotten by the scheduler", ""}
                                    : JobWord{phase_of(it->second), jobs[i].id, it->second, ""};
    }
  }
};

}  // namespace

std::unique_ptr<Scheduler> slurm() {
  return std::make_unique<Slurm>();
}

std::unique_ptr<Scheduler> scheduler_of(const std::string& name) {
  return name == "pbs" ? pbs() : slurm();
}

}  // namespace isobar
