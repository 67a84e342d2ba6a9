// PBS (OpenPBS, PBS Professional), through qsub, qstat -x, qselect and qdel. Job history must be on
// (job_history_enable) for the state of ended jobs; without it they count as forgotten.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/cluster/command.h"
#include "bench/cluster/scheduler.h"
#include "model/base/error.h"
#include "model/base/json.h"

namespace isobar {
namespace {

using nlohmann::json;

// Exit_status of a finished job in Slurm's words. Negative ones are PBS' own: -26 virtual memory, -27 memory,
// -29 walltime; 256 and more is 256 + signal.
std::string ended_as(const json& job) {
  const int64_t substate =
      job.contains("substate") && job["substate"].is_number() ? job["substate"].get<int64_t>() : 0;
  if (!job.contains("Exit_status") || !job["Exit_status"].is_number_integer())
    return substate == 91 ? "CANCELLED" : "FAILED";  // 91: deleted before it ran
  const auto status = job["Exit_status"].get<int64_t>();
  if (status == 0) return "COMPLETED";
  if (status == -29) return "TIMEOUT";
  if (status == -26 || status == -27) return "OUT_OF_MEMORY";
  if (status == 271 || status == 265 || status == 143 || status == 137 || substate == 91) return "CANCELLED";
  return status < 0 ? "BOOT_FAIL (Exit_status " + std::to_string(status) + ")"
                    : "FAILED (Exit_status " + std::to_string(status) + ")";
}

// "01:02:03" or "62"
double seconds_of(const std::string& time) {
  double s = 0;
  std::istringstream in(time);
  for (std::string part; std::getline(in, part, ':');) s = 60 * s + std::atof(part.c_str());
  return s;
}

int64_t count_of(const json& asked) {  // nodect may be a number or its text
  if (!asked.contains("nodect")) return 1;
  const json& n = asked["nodect"];
  return n.is_string() ? std::atoll(n.get<std::string>().c_str()) : n.is_number() ? n.get<int64_t>() : 1;
}

JobWord word_of(const std::string& id, const json& job) {
  const std::string state = text_in(job, "job_state");
  const std::string comment = text_in(job, "comment");
  if (state == "F" || state == "X" || state == "C") return {JobPhase::ended, id, ended_as(job), comment};
  if (state == "R" || state == "E" || state == "S" || state == "U")
    return {JobPhase::running, id,
            state == "R"   ? "RUNNING"
            : state == "E" ? "COMPLETING"
                           : "SUSPENDED",
            comment};
  return {JobPhase::waiting, id, "PENDING", comment};  // Q, H, W, T, M, B
}

class Pbs : public Scheduler {
 public:
  std::string script(const ClusterSpec& c, const JobRequest& job) const override {
    return pbs_script(c, job);
  }

  std::string submit(const ClusterSpec& c, const std::filesystem::path& dir,
                     const std::string& file) override {
    const Said s = say({"qsub", file}, {.cwd = dir, .timeout_s = 120});
    if (s.code != 0 || first_line(s.out).empty())
      throw ConfigError(c.file, "cluster", "qsub refused the job: " + first_line(s.err),
                        "mend the section, or see " + (dir / file).string());
    return first_line(s.out);
  }

  std::optional<std::vector<JobWord>> ask(const std::vector<JobKey>& jobs) override {
    std::vector<std::string> ids;
    std::vector<std::string> command = {"qstat", "-x", "-f", "-F", "json"};
    for (const JobKey& k : jobs) {
      ids.push_back(k.id.empty() ? id_of(k.name) : k.id);
      if (!ids.back().empty()) command.push_back(ids.back());
    }
    std::vector<JobWord> words(jobs.size());
    if (command.size() == 5) return words;
    const Said s = say(command);
    // With unknown ids among them qstat fails, and still says what it knows of the others.
    const json all = parse_json(s.out);
    if (!all.is_object()) return std::nullopt;
    const json known = object_in(all, "Jobs");
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (ids[i].empty()) continue;
      const auto it = known.find(ids[i]);
      words[i] = it == known.end() || !it->is_object()
                     ? JobWord{JobPhase::ended, ids[i], "forgotten by the scheduler", ""}
                     : word_of(ids[i], *it);
    }
    return words;
  }

  void cancel(const std::string& id) override { say({"qdel", id}); }

  // qstat has a job's last life, and how often it ran.
  std::optional<std::map<std::string, std::vector<JobLife>>> accounts(
      const std::vector<std::string>& ids) override {
    std::vector<std::string> command = {"qstat", "-x", "-f", "-F", "json"};
    command.insert(command.end(), ids.begin(), ids.end());
    const json all = parse_json(say(command).out);
    if (!all.is_object()) return std::nullopt;
    std::map<std::string, std::vector<JobLife>> lives;
    const json jobs = object_in(all, "Jobs");
    for (const auto& [id, job] : jobs.items()) {
      if (!job.is_object()) continue;
      const json used = object_in(job, "resources_used");
      const json asked = object_in(job, "Resource_List");
      const JobWord w = word_of(id, job);
      lives[id].push_back({.state = w.state,
                           .elapsed_s = seconds_of(text_in(used, "walltime")),
                           .nodes = count_of(asked),
                           .where = text_in(job, "exec_host"),
                           .over = w.phase == JobPhase::ended});
    }
    return lives;
  }

  std::string own_id() const override {
    const char* id = std::getenv("PBS_JOBID");
    return id ? id : "";
  }

  std::vector<std::string> own_nodes() const override {
    const char* file = std::getenv("PBS_NODEFILE");  // a line for each rank of each node
    std::istringstream in(file ? read_file(file, most::table) : "");
    std::vector<std::string> nodes;
    for (std::string node; in >> node;)
      if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
    if (nodes.empty()) throw std::runtime_error("PBS_NODEFILE does not say which nodes this job has");
    return nodes;
  }

  void clear(const std::string&) override {}  // mpiexec's own daemons end with it

 private:
  static std::string id_of(const std::string& name) {
    const Said s = say({"qselect", "-x", "-N", name});
    return s.code == 0 ? first_line(s.out) : "";
  }
};

}  // namespace

std::unique_ptr<Scheduler> pbs() {
  return std::make_unique<Pbs>();
}

}  // namespace isobar
