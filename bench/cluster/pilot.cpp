#include "bench/cluster/pilot.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "bench/cluster/command.h"
#include "bench/cluster/grouping.h"
#include "bench/cluster/jobscript.h"
#include "bench/cluster/placement.h"
#include "bench/cluster/preflight.h"
#include "bench/cluster/schedulers/scheduler.h"
#include "bench/sweep/command_words.h"
#include "bench/sweep/results/resultsdir.h"
#include "bench/sweep/results/trialdir.h"
#include "bench/sweep/run/jobs.h"
#include "bench/sweep/run/launcher.h"
#include "model/base/error.h"
#include "model/base/system/program.h"
#include "model/base/system/shared_files.h"
#include "model/base/text/json.h"

namespace isobar::cluster {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

void pause(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// Start of the job as recorded by its script, since modules and the preamble take time.
Clock::time_point begin_of_job() {
  const char* noted = std::getenv(kJobBegan);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const double ago = noted ? std::chrono::duration<double>(now).count() - std::atof(noted) : 0;
  return Clock::now() - std::chrono::seconds(std::clamp<int64_t>(std::llround(ago), 0, 3600));
}

enum class Stop { none, taken_over, time_up, asked_to_stop, nothing_starts };

class Pilot {
 public:
  Pilot(const fs::path& results, const std::string& name, const volatile std::sig_atomic_t* signal)
      : results_(results),
        dir_(results, name),
        signal_(signal),
        about_(dir_.description()),
        cluster_(cluster_from_json(about_.at("cluster"), (dir_.path() / "job.json").string())),
        scheduler_(scheduler_of(cluster_.scheduler)),
        time_s_(about_.at("time_s")),
        lead_s_(about_.at("lead_s")) {
    const json& l = about_.at("limits");
    limits_ = {.timeout_s = l.at("timeout_s"),
               .timeout_given = l.at("timeout_given"),
               .hang_s = l.at("hang_s").is_null() ? std::nullopt : std::optional<double>(l.at("hang_s")),
               .memory_limit_mb = l.at("memory_limit_mb"),
               .grace_s = l.at("grace_s"),
               .noise_limit = l.at("noise_limit")};
  }

  int operator()() {
    life_ = dir_.begin_life();
    if (life_ == 0) {
      say_line("this job was given up: nothing to do");
      return 0;
    }
    dir_.write_id(scheduler_->own_id());
    nodes_ = scheduler_->own_nodes();
    say_line("life " + std::to_string(life_) + " on " + std::to_string(nodes_.size()) + " nodes, first " +
             nodes_.at(0));
    if (const std::string from = about_.at("lead_from"); lead_s_ > 0)
      say_line("of " + std::to_string(std::llround(time_s_)) + " s, the last " +
               std::to_string(std::llround(lead_s_)) + " s are for a last checkpoint: " + from);
    if (life_ > 1) pause(cluster_.fence_s);  // an earlier life may still be ending its trial
    if (cluster_.preflight) preflight();
    for (const json& one : about_.at("trials")) {
      const sweep::Trial t = sweep::trial_from_json(one, (dir_.path() / "job.json").string());
      if (const Stop why = stop(); why != Stop::none) return leave(why);
      if (!mine(t)) continue;
      const double needs = t.chained() ? cluster_.start_s + 2 * lead_s_
                                       : sweep::time_limit(limits_, t) + limits_.grace_s + kReserve_s;
      if (started_ > 0 && time_s_ - seconds_since(begin_) < needs) continue;
      if (const Stop why = run(t); why != Stop::none) return leave(why);
    }
    return 0;
  }

 private:
  static constexpr int kMostUnstarted = 2;
  static constexpr double kProbe_s = 30;

  void say_line(const std::string& what) const { std::printf("%s\n", what.c_str()); }

  int leave(Stop why) const {
    say_line(why == Stop::taken_over       ? "another life of this job has taken over"
             : why == Stop::time_up        ? "the job's time is up"
             : why == Stop::nothing_starts ? "no trial starts here"
                                           : "told to stop");
    return why == Stop::time_up ? 0 : 1;
  }

  // Runs a program on each of the first nodes, with all cores of the node.
  Said on_each_node(int64_t nodes, const std::vector<std::string>& program, const std::string& name,
                    double timeout_s) const {
    return say(start_command(one_a_node(1), nodes_, nodes, program, name, dir_.path() / "rankfile"),
               {.timeout_s = timeout_s});
  }

  /// Starts one process a node, with the cores that the job has there for `ranks` of a trial.
  ClusterSpec one_a_node(int64_t ranks) const {
    ClusterSpec c = cluster_;
    c.cores_per_node = cluster_.cores_per_rank() * cluster_.ranks_a_node(ranks);
    c.ranks_per_node = 1;
    c.cores.clear();
    if (c.start == "srun") c.start_options.emplace_back("--cpu-bind=none");
    return c;
  }

  // The words that start a trial. One by run.command is started once a node, or once in all, on this node.
  std::vector<std::string> start_of(const sweep::Trial& t, const fs::path& dir, bool resumes) const {
    const bool guest = !t.spec.run.command.empty();
    std::vector<std::string> program =
        sweep::trainer_command(about_.at("trainer"), dir, t.ranks(), about_.at("rank_output"), resumes);
    if (!guest) return start_command(cluster_, nodes_, t.ranks(), program, t.id, dir / "rankfile");
    if (resumes) std::erase(program, "--set-aside-damaged");
    const int64_t n = cluster_.nodes(t.ranks());
    const std::vector<std::string> names(nodes_.begin(), nodes_.begin() + n);
    std::vector<std::string> told = sweep::words_that_tell(names);
    told.insert(told.end(), program.begin(), program.end());
    if (!sweep::starts_on_every_node(t.spec)) return told;
    return start_command(one_a_node(t.ranks()), nodes_, n, told, t.id, dir / "rankfile");
  }

  // Leaves out slow nodes if enough others remain; all slow nodes are named in the job's output.
  void preflight() {
    const fs::path file = dir_.path() / "preflight.json";
    const Said s = on_each_node(static_cast<int64_t>(nodes_.size()),
                                {about_.at("self"), "preflight", "-o", file.string()}, "preflight", 120);
    if (s.code != 0) return say_line("preflight did not run: " + s.err.substr(0, s.err.find('\n')));
    for (const SlowNode& slow : slow_nodes_in(file, nodes_)) {
      const bool spare = static_cast<int64_t>(nodes_.size()) > about_.at("needed").get<int64_t>();
      say_line("slow node " + slow.node + (spare ? ", left out: " : ", kept because no other is left: ") +
               slow.reason);
      if (spare) std::erase(nodes_, slow.node);
    }
  }

  Stop stop() {
    if (*signal_ == SIGUSR1) return Stop::time_up;
    if (*signal_ != 0) return Stop::asked_to_stop;
    return taken_over() ? Stop::taken_over : Stop::none;
  }

  bool taken_over() {
    if (seconds_since(looked_) < 1) return false;
    looked_ = Clock::now();
    return !dir_.is_life(life_);
  }

  sweep::TrialDir directory(const sweep::Trial& t) const {
    return {results_, t, about_.at("warmup"), cluster_.retries + 1};
  }

  // True if the trial is to be run, after settling what an earlier life left unfinished.
  bool mine(const sweep::Trial& t) {
    sweep::TrialDir dir = directory(t);
    if (dir.finished() || sweep::claimed_by(dir.path()) != dir_.name()) return false;
    if (dir.attempt() > 0 && !dir.verdict() && word_in(dir.path() / "started_by") == dir_.name()) {
      if (dir.adopt()) return false;
      // The previous life ended without a record, as when its node went down.
      dir.settle(sweep::verdict_of_job("NODE_FAIL", dir_.id()), dir_.id());
      return !dir.finished();
    }
    // One launch failure is enough for a job: the next one may get better nodes. A trial that an earlier life
    // had to stop continues in this one.
    return dir.verdict() != records::RunClass::launch_fail || job_of(dir) != dir_.id();
  }

  static std::string job_of(const sweep::TrialDir& dir) {
    return text_in(json_if_there(dir.path() / "status.json"), "job");
  }

  Stop run(const sweep::Trial& t) {
    sweep::TrialDir dir = directory(t);
    const auto map = launch_map(cluster_, nodes_, t.ranks());
    const bool resumes = dir.prepare(t.chained());
    write_atomically(dir.path() / "started_by", dir_.name() + " " + std::to_string(life_) + "\n");
    write_atomically(dir.path() / "launch_map.json", json_text(to_json(map), 1) + "\n");
    write_atomically(dir.path() / "rankfile", rankfile_text(map));
    std::vector<std::string> command = start_of(t, dir.path(), resumes);
    const std::string launcher = program_in_path(command[0]);
    if (launcher.empty())
      throw ConfigError("PATH", "", "has no " + command[0] + ", which starts the ranks",
                        "load its module in cluster.setup of the machine file");
    command[0] = launcher;
    ++started_;
    sweep::ProcessLimits limits = sweep::limits_of(limits_, t);
    if (t.chained() && !limits_.timeout_given) limits.timeout_s = 0;  // no limit of its own: its job has one
    sweep::WatchedProcess process({.argv = command,
                                   .env = {{"ISOBAR_JOB", dir_.name()}, {"ISOBAR_TRIAL", t.id}},
                                   .out = dir.path() / "out",
                                   .err = dir.path() / "err",
                                   .progress_files = {dir.path() / "result.jsonl", dir.path() / "heartbeat"},
                                   .limits = limits});
    const Stop why = follow(process, t);
    if (why == Stop::taken_over) return why;  // the process' destructor kills at once
    const sweep::ProcessOutcome& o = process.outcome();
    if (o.end == sweep::ProcessEnd::lost) sweep::kill_tagged("ISOBAR_JOB=" + dir_.name());
    if (o.end != sweep::ProcessEnd::exited && o.end != sweep::ProcessEnd::not_started)
      scheduler_->clear(t.id);
    if (!dir_.is_life(life_)) return Stop::taken_over;
    const records::ResultTail tail = dir.tail();
    const bool own_end = tail.ended && records::run_class(tail.failure) != records::RunClass::interrupted;
    if (why != Stop::none && !own_end)
      dir.settle(why == Stop::time_up
                     ? sweep::verdict_of_job("TIMEOUT", dir_.id())
                     : sweep::Verdict{records::RunClass::interrupted, "its job was told to stop"},
                 dir_.id());
    else if (lost_a_node(t, dir, o))
      dir.settle({records::RunClass::node_fail, "one of its nodes starts nothing any more", true}, dir_.id());
    else
      dir.judge(o, sweep::plausibility_of(t, limits_), dir_.id());
    const records::RunClass verdict = dir.verdict().value_or(records::RunClass::interrupted);
    say_line(t.id + " " + records::name_of(verdict));
    // Counted, so that a sick node does not use up every trial's attempts.
    unstarted_ = verdict == records::RunClass::launch_fail ? unstarted_ + 1 : 0;
    return why == Stop::none && unstarted_ >= kMostUnstarted ? Stop::nothing_starts : why;
  }

  // True if a crashed trial on several nodes has lost one of them, which shows in that nothing starts there.
  // The scheduler may notice much later.
  bool lost_a_node(const sweep::Trial& t, const sweep::TrialDir& dir, const sweep::ProcessOutcome& o) const {
    const int64_t nodes = cluster_.nodes(t.ranks());
    if (nodes < 2 || dir.weigh(o).run_class != records::RunClass::crash) return false;
    const bool lost = on_each_node(nodes, {"/bin/true"}, "probe", kProbe_s).code != 0;
    if (lost) scheduler_->clear("probe");
    return lost;
  }

  // Waits until the trial ends or another life of this job takes over. When the job must stop, a chained
  // trial is signalled and gets the lead for one more checkpoint, after which it is stopped; other trials are
  // stopped at once.
  Stop follow(sweep::WatchedProcess& process, const sweep::Trial& t) {
    const double patience = limits_.grace_s + kReserve_s;  // from the stop to the job's end
    Stop why = Stop::none;
    Clock::time_point asked_to_stop{};
    bool cancelled = false;
    while (!process.wait(0.2)) {
      if (why != Stop::none) {
        if (taken_over()) return Stop::taken_over;
        const double has = why == Stop::time_up ? lead_s_ - patience : limits_.grace_s;
        if (!cancelled && seconds_since(asked_to_stop) > has) process.cancel(), cancelled = true;
        continue;
      }
      why = stop();
      if (why == Stop::none && time_s_ - seconds_since(begin_) < (t.chained() ? lead_s_ : patience))
        why = Stop::time_up;
      if (why == Stop::taken_over) return why;
      if (why == Stop::none) continue;
      asked_to_stop = Clock::now();
      t.chained() ? process.notify() : process.cancel();
      cancelled = !t.chained();
    }
    return why;
  }

  fs::path results_;
  sweep::JobDir dir_;
  const volatile std::sig_atomic_t* signal_;
  json about_;
  ClusterSpec cluster_;
  std::unique_ptr<Scheduler> scheduler_;
  double time_s_, lead_s_;
  sweep::TrialLimits limits_;
  int64_t life_ = 0, started_ = 0;
  int unstarted_ = 0;  // consecutive trials that did not start
  std::vector<std::string> nodes_;
  Clock::time_point begin_ = begin_of_job(), looked_{};
};

}  // namespace

int run_pilot(const fs::path& results, const std::string& name, const volatile std::sig_atomic_t* signal) {
  return Pilot(results, name, signal)();
}

}  // namespace isobar::cluster
