#include "bench/cluster/jobscript.h"

#include <algorithm>
#include <cmath>
#include <regex>

#include "model/base/system/shell_quoted.h"
#include "model/base/text/printed.h"

namespace isobar::cluster {
namespace {

// Shortest warning requested of Slurm, besides the up to 60 s by which its signal may come early.
constexpr double kWarning_s = 30;

int64_t ranks_of(const ClusterSpec& c, const JobRequest& job) {
  return job.ranks_a_node > 0 ? job.ranks_a_node : c.ranks_per_node;
}

int64_t memory_mib(const ClusterSpec& c, int64_t ranks) {  // both schedulers count in powers of two
  return std::llround(std::ceil(c.memory_per_rank_gb * 1e9 / (1 << 20) * static_cast<double>(ranks)));
}

std::string quoted_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& w : words) line += (line.empty() ? "" : " ") + shell_quoted(w);
  return line + "\n";
}

std::string body(const ClusterSpec& c, const JobRequest& job) {
  std::string out = std::string("export ") + kJobBegan + "=$(date +%s)\n";
  out += "cd " + shell_quoted(job.cwd) + " || exit 1\n";
  for (const std::string& m : c.modules) out += quoted_line({"module", "load", m});
  for (const auto& command : c.preamble) out += quoted_line(command);
  for (const auto& [name, value] : c.environment) out += "export " + name + "=" + shell_quoted(value) + "\n";
  return out + "exec " + quoted_line(job.command);
}

}  // namespace

std::string hours(int64_t seconds) {
  return printed("%02lld:%02lld:%02lld", static_cast<long long>(seconds / 3600),
                 static_cast<long long>(seconds / 60 % 60), static_cast<long long>(seconds % 60));
}

std::optional<int64_t> seconds_of_limit(const std::string& text) {
  static const std::regex form(R"((?:(\d{1,4})-)?(\d{1,6})(?::(\d{1,4}))?(?::(\d{1,2}))?)");
  std::smatch m;
  if (!std::regex_match(text, m, form)) return std::nullopt;
  const auto number = [&](int i) { return m[i].matched ? std::stoll(m[i].str()) : 0; };
  int64_t seconds = 0;
  if (m[1].matched)
    seconds = 86400 * number(1) + 3600 * number(2) + 60 * number(3) + number(4);
  else if (m[4].matched)
    seconds = 3600 * number(2) + 60 * number(3) + number(4);
  else
    seconds = 60 * number(2) + number(3);
  return seconds > 0 ? std::optional(seconds) : std::nullopt;
}

std::string slurm_script(const ClusterSpec& c, const JobRequest& job) {
  std::string out = "#!/bin/bash -l\n";  // a login shell defines `module`
  const auto ask = [&](const std::string& option) { out += "#SBATCH " + option + "\n"; };
  ask("--job-name=" + job.name);
  ask("--nodes=" + std::to_string(job.nodes));
  const int64_t ranks = ranks_of(c, job);
  ask("--ntasks-per-node=" + std::to_string(ranks));
  ask(c.exclusive ? "--exclusive" : "--cpus-per-task=" + std::to_string(c.cores_per_rank()));
  if (c.gpus_per_rank > 0) ask("--gres=gpu:" + std::to_string(ranks * c.gpus_per_rank));
  if (c.memory_per_rank_gb > 0) ask("--mem=" + std::to_string(memory_mib(c, ranks)) + "M");
  ask("--time=" + hours(job.time_s));
  ask("--signal=B:USR1@" + std::to_string(std::lround(std::ceil(std::max(kWarning_s, job.lead_s)))));
  ask("--requeue");
  ask("--open-mode=append");
  ask("--output=out");  // in the job's directory, from which it is submitted
  if (!c.queue.empty()) ask("--partition=" + c.queue);
  if (!c.account.empty()) ask("--account=" + c.account);
  if (!c.qos.empty()) ask("--qos=" + c.qos);
  if (!c.constraint.empty()) ask("--constraint=" + c.constraint);
  if (!job.after.empty()) ask("--dependency=afterany:" + job.after);
  for (const std::string& d : c.directives) ask(d);
  return out + body(c, job);
}

std::string pbs_script(const ClusterSpec& c, const JobRequest& job) {
  std::string out = "#!/bin/bash -l\n";  // a login shell defines `module`
  const auto ask = [&](const std::string& option) { out += "#PBS " + option + "\n"; };
  ask("-N " + job.name);
  const int64_t ranks = ranks_of(c, job);
  std::string chunk =
      ":ncpus=" + std::to_string(c.exclusive ? c.cores_per_node : ranks * c.cores_per_rank()) +
      ":mpiprocs=" + std::to_string(ranks);
  if (c.gpus_per_rank > 0) chunk += ":ngpus=" + std::to_string(ranks * c.gpus_per_rank);
  if (c.memory_per_rank_gb > 0) chunk += ":mem=" + std::to_string(memory_mib(c, ranks)) + "mb";
  ask("-l select=" + std::to_string(job.nodes) + chunk + (c.constraint.empty() ? "" : ":" + c.constraint));
  ask(c.exclusive ? "-l place=scatter:excl" : "-l place=scatter:shared");
  ask("-l walltime=" + hours(job.time_s));
  ask("-r y");
  ask("-j oe");
  ask("-o out");
  if (!c.queue.empty()) ask("-q " + c.queue);
  if (!c.account.empty()) ask("-A " + c.account);
  if (!c.qos.empty()) ask("-l qos=" + c.qos);
  if (!job.after.empty()) ask("-W depend=afterany:" + job.after);
  for (const std::string& d : c.directives) {
    // "-l filesystems=home" is an option and its value: PBS needs the blank, which a plain word cannot
    // contain
    const bool glued = d.size() > 2 && d[0] == '-' && d[1] != '-' && d[2] != ' ';
    ask(glued ? d.substr(0, 2) + " " + d.substr(2) : d);
  }
  return out + body(c, job);
}

}  // namespace isobar::cluster
