// Slurm, through sbatch, squeue, sacct and scancel. Without accounting, squeue still reports a job for
// MinJobAge (300 s by default) after its end. A job's nodes are in its environment: containers have no Slurm.
#include <cstdlib>
#include <map>
#include <sstream>
#include <stdexcept>

#include "bench/cluster/command.h"
#include "bench/cluster/schedulers/scheduler.h"
#include "model/base/error.h"

namespace isobar::cluster {
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

[[noreturn]] void refuse_nodes(const std::string& text) {
  throw std::runtime_error("SLURM_JOB_NODELIST is no list of nodes at '" + text + "'");
}

/// Nodes of a part of a list between commas: "n[001-003,7]", "r[1-2]n[08-10]".
void add_nodes(const std::string& before, const std::string& text, std::vector<std::string>& to) {
  constexpr size_t kMostDigits = 9, kMostNodes = 1 << 20;
  const size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos && close == std::string::npos) return to.push_back(before + text);
  if (open == std::string::npos || close == std::string::npos || close < open) refuse_nodes(text);
  for (const std::string& range : split(text.substr(open + 1, close - open - 1), ',')) {
    const std::string first = range.substr(0, range.find('-')), last = range.substr(range.rfind('-') + 1);
    for (const std::string& number : {first, last})
      if (number.empty() || number.size() > kMostDigits ||
          number.find_first_not_of("0123456789") != std::string::npos)
        refuse_nodes(text);
    if (std::stoll(last) < std::stoll(first)) refuse_nodes(text);
    for (int64_t n = std::stoll(first), end = std::stoll(last); n <= end && to.size() < kMostNodes; ++n) {
      std::string number = std::to_string(n);
      if (number.size() < first.size()) number.insert(0, first.size() - number.size(), '0');
      add_nodes(before + text.substr(0, open) + number, text.substr(close + 1), to);
    }
  }
}

JobPhase phase_of(const std::string& state) {
  for (const char* s :
       {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
    if (state == s) return JobPhase::waiting;
  for (const char* s :
       {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})
    if (state == s) return JobPhase::running;
  for (const char* s : {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL",
                        "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"})
    if (state.starts_with(s)) return JobPhase::ended;  // "CANCELLED by 1000"
  return JobPhase::unknown;  // of a newer Slurm: a job that counted as ended would be submitted again
}

class Slurm : public Scheduler {
 public:
  std::string script(const ClusterSpec& c, const JobRequest& job) const override {
    return slurm_script(c, job);
  }

  std::string submit(const ClusterSpec& c, const std::filesystem::path& dir,
                     const std::string& file) override {
    const Said s = say({"sbatch", "--parsable", file}, {.cwd = dir, .timeout_s = 120, .outside_job = true});
    if (s.code != 0)
      throw ConfigError(c.file, "cluster", "sbatch refused the job: " + reason_in(s),
                        "mend the section; --dry-run prints the script");
    const std::string id = submitted_id(s.out);  // "12" or "12;cluster"
    return id.substr(0, id.find(';'));
  }

  std::optional<std::vector<JobWord>> ask(const std::vector<JobKey>& jobs) override {
    trouble_.clear();
    std::string names;
    for (const JobKey& k : jobs) names += (names.empty() ? "" : ",") + k.name;
    const auto known = squeue("--name=" + names);
    if (!known) return std::nullopt;
    std::vector<JobWord> words;
    std::vector<size_t> forgotten;
    for (const JobKey& k : jobs) {
      const auto it = known->find(k.name);
      words.push_back(it == known->end() ? alone(k) : it->second);
      if (words.back().phase == JobPhase::ended && words.back().state.empty())
        forgotten.push_back(words.size() - 1);
    }
    if (!forgotten.empty()) ask_accounting(forgotten, words);
    return words;
  }

  void cancel(const std::string& id) override { say({"scancel", id}); }

  std::optional<std::map<std::string, std::vector<JobLife>>> accounts(
      const std::vector<std::string>& ids) override {
    trouble_.clear();
    std::map<std::string, std::vector<JobLife>> lives;
    const std::vector<std::string> format = {"--duplicates",
                                             "--format=JobIDRaw,State,ElapsedRaw,NNodes,NodeList"};
    const auto take = [&](const std::vector<std::string>& asked) {
      const auto rows = sacct(format, asked, 5);
      if (!rows) return false;
      for (const auto& f : *rows)
        lives[f[0]].push_back({.state = f[1],
                               .elapsed_s = std::atof(f[2].c_str()),
                               .nodes = std::atoll(f[3].c_str()),
                               .where = f[4],
                               .over = phase_of(f[1]) == JobPhase::ended || f[1] == "REQUEUED"});
      return true;
    };
    if (!take(ids)) return std::nullopt;
    for (const std::string& id : ids)
      if (ids.size() > 1 && !lives.contains(id)) take({id});
    return lives;
  }

  std::string own_id() const override { return variable("SLURM_JOB_ID"); }

  std::vector<std::string> own_nodes() const override {
    std::vector<std::string> nodes;
    const std::string list = variable("SLURM_JOB_NODELIST");
    for (size_t at = 0, end = 0; at < list.size(); at = end + 1) {
      end = at;
      for (int depth = 0; end < list.size() && (depth > 0 || list[end] != ','); ++end)
        depth += list[end] == '[' ? 1 : list[end] == ']' ? -1 : 0;
      add_nodes("", list.substr(at, end - at), nodes);
    }
    if (nodes.empty()) refuse_nodes(list);
    return nodes;
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
  using Rows = std::vector<std::vector<std::string>>;

  /// Lines split into fields; one with too few is reported and ignored.
  Rows rows_in(const Said& s, const char* program, size_t fields) {
    Rows rows;
    std::istringstream lines(s.out);
    for (std::string line; std::getline(lines, line);) {
      if (line.empty()) continue;
      rows.push_back(split(line, '|'));
      if (rows.back().size() >= fields) continue;
      rows.pop_back();
      trouble_ = std::string(program) + "'s answer has a line that is not as asked for: `" +
                 line.substr(0, 80) + "`";
    }
    return rows;
  }

  /// Jobs by their names, which are unique; nothing: squeue failed.
  std::optional<std::map<std::string, JobWord>> squeue(const std::string& which) {
    const Said s = say({"squeue", "--noheader", "--states=all", "--format=%i|%j|%T|%r", which});
    no_such_job_ = s.err.find("Invalid job id") != std::string::npos;
    if (s.code != 0 && !no_such_job_) trouble_ = "squeue failed: " + first_line(s.err);
    if (s.code != 0) return std::nullopt;
    std::map<std::string, JobWord> known;
    for (const auto& f : rows_in(s, "squeue", 3)) {
      known[f[1]] = {phase_of(f[2]), f[0], f[2], f.size() > 3 ? f[3] : ""};
      if (phase_of(f[2]) == JobPhase::unknown)
        trouble_ = "squeue says " + f[2] + " of job " + f[0] + ", which is no state that is known";
    }
    return known;
  }

  /// A job that an answer about all omitted, queried alone: ended, without a state where squeue has none.
  JobWord alone(const JobKey& k) {
    const auto known = squeue(k.id.empty() ? "--name=" + k.name : "--jobs=" + k.id);
    if (!known && !no_such_job_) return {JobPhase::unknown, k.id, "", ""};
    if (known)
      if (const auto it = known->find(k.name); it != known->end()) return it->second;
    return k.id.empty() ? JobWord{} : JobWord{JobPhase::ended, k.id, "", ""};
  }

  std::optional<Rows> sacct(const std::vector<std::string>& format, const std::vector<std::string>& ids,
                            size_t fields) {
    std::vector<std::string> command = {"sacct", "--noheader", "--parsable2", "--allocations"};
    command.insert(command.end(), format.begin(), format.end());
    std::string all;
    for (const std::string& id : ids) all += (all.empty() ? "" : ",") + id;
    command.push_back("--jobs=" + all);
    const Said s = say(command);
    if (s.code == 0) return rows_in(s, "sacct", fields);
    if (s.err.find("disabled") == std::string::npos) trouble_ = "sacct failed: " + first_line(s.err);
    return std::nullopt;  // no accounting, or it does not answer
  }

  // Completes the states of jobs that squeue has forgotten from sacct.
  void ask_accounting(const std::vector<size_t>& which, std::vector<JobWord>& words) {
    std::map<std::string, std::string> states;
    const auto take = [&](const std::vector<std::string>& ids) {
      const auto rows = sacct({"--format=JobIDRaw,State"}, ids, 2);
      if (!rows) return false;
      for (const auto& f : *rows) states[f[0]] = f[1];
      return true;
    };
    std::vector<std::string> ids;
    for (const size_t i : which) ids.push_back(words[i].id);
    if (take(ids) && ids.size() > 1)
      for (const std::string& id : ids)
        if (!states.contains(id)) take({id});
    for (const size_t i : which) {
      const auto it = states.find(words[i].id);
      // squeue answered twice without it: the job is over, its outcome unknown.
      words[i].state = it == states.end() ? "forgotten by the scheduler" : it->second;
      if (it == states.end()) continue;
      words[i].phase = phase_of(it->second);
      if (words[i].phase == JobPhase::unknown)
        trouble_ = "sacct says " + it->second + " of job " + it->first + ", which is no state that is known";
    }
  }

  bool no_such_job_ = false;  // by squeue's last answer
};

}  // namespace

std::unique_ptr<Scheduler> slurm() {
  return std::make_unique<Slurm>();
}

std::unique_ptr<Scheduler> scheduler_of(const std::string& name) {
  return name == "pbs" ? pbs() : slurm();
}

}  // namespace isobar::cluster
