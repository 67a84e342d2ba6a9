// PBS (OpenPBS, PBS Professional), through qsub, qstat -x, qselect and qdel. The state of ended jobs needs
// job history (job_history_enable); without it they count as forgotten. An answer about several jobs may omit
// some (OpenPBS 2672) or be invalid JSON because of one (OpenPBS 1255): those jobs are queried one by one.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/cluster/command.h"
#include "bench/cluster/schedulers/scheduler.h"
#include "model/base/error.h"
#include "model/base/text/json.h"
#include "model/base/text/json_fault.h"

namespace isobar::cluster {
namespace {

using nlohmann::json;

/// A number, which versions and forms of qstat write as such or as a text
std::optional<int64_t> whole_in(const json& j, const char* key) {
  const auto at = j.find(key);
  if (at != j.end() && at->is_number()) return at->get<int64_t>();
  const std::string text = text_in(j, key);
  return text.empty() ? std::nullopt : std::optional<int64_t>(std::atoll(text.c_str()));
}

// "01:02:03" or "62"
double seconds_of(const std::string& time) {
  double s = 0;
  std::istringstream in(time);
  for (std::string part; std::getline(in, part, ':');) s = 60 * s + std::atof(part.c_str());
  return s;
}

/// True for a job that ran as long as it asked for, which older versions end by a signal, as qdel does.
bool used_its_time(const json& job) {
  const double asked = seconds_of(text_in(object_in(job, "Resource_List"), "walltime"));
  return asked > 0 && seconds_of(text_in(object_in(job, "resources_used"), "walltime")) >= asked;
}

// Slurm's name for the Exit_status of a finished job. PBS's own codes are negative: -26 virtual memory, -27
// memory, -29 walltime; 256 and more is 256 + signal.
std::string ended_as(const json& job) {
  const int64_t substate = whole_in(job, "substate").value_or(0);
  const auto said = whole_in(job, "Exit_status");
  if (!said) return substate == 91 ? "CANCELLED" : "FAILED";  // 91: deleted before it ran
  const int64_t status = *said;
  if (status == 0) return "COMPLETED";
  if (status == -29) return "TIMEOUT";
  if (status == -26 || status == -27) return "OUT_OF_MEMORY";
  if (status == 271 || status == 265 || status == 143 || status == 137 || substate == 91)
    return used_its_time(job) ? "TIMEOUT" : "CANCELLED";
  return status < 0 ? "BOOT_FAIL (Exit_status " + std::to_string(status) + ")"
                    : "FAILED (Exit_status " + std::to_string(status) + ")";
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

/// True for two ids of one job: "10.server" and "10.server.domain".
bool same_job(const std::string& a, const std::string& b) {
  const std::string &less = a.size() < b.size() ? a : b, &more = a.size() < b.size() ? b : a;
  return more == less || (less.find('.') != std::string::npos && more.starts_with(less + "."));
}

/// The job of that id in an answer; null where it is missing.
json job_in(const json& jobs, const std::string& id) {
  for (const auto& [name, job] : jobs.items())
    if (job.is_object() && same_job(name, id)) return job;
  return nullptr;
}

/// A job in the format of `qstat -f` without -F json: "    Resource_List.nodect = 2"; continuation lines
/// begin with a tab.
json plain_job(const std::string& text) {
  json out = json::object();
  json* last = nullptr;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('\t') && last) {
      *last = last->get<std::string>() + line.substr(1);
      continue;
    }
    const size_t equals = line.find(" = ");
    if (!line.starts_with("    ") || equals == std::string::npos) continue;
    const std::string key = line.substr(4, equals - 4);
    const size_t dot = key.find('.');
    json& group = dot == std::string::npos ? out : out[key.substr(0, dot)];
    if (!group.is_object() && !group.is_null()) continue;
    last = &(group[dot == std::string::npos ? key : key.substr(dot + 1)] = line.substr(equals + 3));
  }
  return out;
}

class Pbs : public Scheduler {
 public:
  std::string script(const ClusterSpec& c, const JobRequest& job) const override {
    return pbs_script(c, job);
  }

  std::string submit(const ClusterSpec& c, const std::filesystem::path& dir,
                     const std::string& file) override {
    const Said s = say({"qsub", file}, {.cwd = dir, .timeout_s = 120});
    if (s.code != 0)
      throw ConfigError(c.file, "cluster", "qsub refused the job: " + reason_in(s),
                        "mend the section; --dry-run prints the script");
    return submitted_id(s.out);
  }

  std::optional<std::vector<JobWord>> ask(const std::vector<JobKey>& jobs) override {
    trouble_.clear();
    std::vector<JobWord> words(jobs.size());
    std::vector<std::string> ids, known;
    for (size_t i = 0; i < jobs.size(); ++i) {
      const auto id = jobs[i].id.empty() ? id_of(jobs[i].name) : std::optional(jobs[i].id);
      if (!id) words[i].phase = JobPhase::unknown;
      ids.push_back(id.value_or(""));
      if (!ids.back().empty()) known.push_back(ids.back());
    }
    if (known.empty()) return words;
    const Answer all = qstat(known);
    if (all.away) return std::nullopt;
    for (size_t i = 0; i < jobs.size(); ++i)
      if (!ids[i].empty()) words[i] = word_about(ids[i], all);
    return words;
  }

  void cancel(const std::string& id) override { say({"qdel", id}); }

  // qstat keeps only a job's last life, and its run count.
  std::optional<std::map<std::string, std::vector<JobLife>>> accounts(
      const std::vector<std::string>& ids) override {
    trouble_.clear();
    const Answer all = qstat(ids);
    if (all.away) return std::nullopt;
    std::map<std::string, std::vector<JobLife>> lives;
    for (const std::string& id : ids) {
      json job = job_in(all.jobs, id);
      if (job.is_null()) job = alone(id).first;
      if (!job.is_object()) continue;
      const json used = object_in(job, "resources_used");
      const json asked = object_in(job, "Resource_List");
      const JobWord w = word_of(id, job);
      lives[id].push_back({.state = w.state,
                           .elapsed_s = seconds_of(text_in(used, "walltime")),
                           .nodes = whole_in(asked, "nodect").value_or(1),
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
    const char* file = std::getenv("PBS_NODEFILE");  // one line for each rank of each node
    std::istringstream in(file ? read_file(file, most::table) : "");
    std::vector<std::string> nodes;
    for (std::string node; in >> node;)
      if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
    if (nodes.empty()) throw std::runtime_error("PBS_NODEFILE does not say which nodes this job has");
    return nodes;
  }

  void clear(const std::string&) override {}  // mpiexec's own daemons end with it

 private:
  struct Answer {
    json jobs = json::object();
    bool whole = false;         // valid JSON
    bool knows_others = false;  // it reports an unknown id
    bool away = false;          // no answer at all
  };

  Answer qstat(const std::vector<std::string>& ids) {
    std::vector<std::string> command = {"qstat", "-x", "-f", "-F", "json"};
    command.insert(command.end(), ids.begin(), ids.end());
    const Said s = say(command);
    Answer a;
    // With unknown ids among them qstat fails, but still describes the other jobs.
    a.knows_others = s.err.find("Unknown Job Id") != std::string::npos;
    const json all = parse_json(s.out);
    if (all.is_object()) {
      a.whole = true;
      a.jobs = object_in(all, "Jobs");
      if (s.code != 0 && !a.knows_others) trouble_ = "qstat failed: " + first_line(s.err);
      return a;
    }
    const bool silent = s.out.find_first_not_of(" \t\r\n") == std::string::npos;
    a.away = s.code < 0 || (silent && !a.knows_others);
    if (s.code < 0 || (silent && s.code != 0 && !a.knows_others))
      trouble_ = "qstat does not answer: " + first_line(s.err);
    else if (!silent)
      trouble_ = "qstat's answer " + fault_in(s.out);
    return a;
  }

  static std::string fault_in(const std::string& text) {
    const std::string fault = json_fault(text), excess = json_excess(text);
    return !fault.empty() ? fault : !excess.empty() ? excess : "is no JSON object";
  }

  JobWord word_about(const std::string& id, const Answer& all) {
    if (const json job = job_in(all.jobs, id); job.is_object()) return word_of(id, job);
    const auto [job, over] = alone(id);
    if (job.is_object()) return word_of(id, job);
    if (over) return {JobPhase::ended, id, "forgotten by the scheduler", ""};
    return {JobPhase::unknown, id, "", ""};
  }

  /// The job, queried alone; else whether the scheduler certainly has no job of that id.
  std::pair<json, bool> alone(const std::string& id) {
    const std::string before = trouble_;
    const Answer a = qstat({id});
    if (json job = job_in(a.jobs, id); job.is_object()) return {job, false};
    if (a.knows_others || (a.whole && trouble_ == before)) return {nullptr, true};
    if (a.whole || a.away) return {nullptr, false};
    const Said s = say({"qstat", "-x", "-f", id});
    json job = plain_job(s.out);
    if (!text_in(job, "job_state").empty()) return {job, false};
    return {nullptr, s.code != 0 && s.err.find("Unknown Job Id") != std::string::npos};
  }

  /// "": the scheduler has no job of that name; nothing: it does not answer.
  std::optional<std::string> id_of(const std::string& name) {
    const Said s = say({"qselect", "-x", "-N", name});
    if (s.code == 0) return first_line(s.out);
    trouble_ = "qselect failed: " + first_line(s.err);
    return std::nullopt;
  }
};

}  // namespace

std::unique_ptr<Scheduler> pbs() {
  return std::make_unique<Pbs>();
}

}  // namespace isobar::cluster
