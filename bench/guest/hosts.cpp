#include "bench/guest/hosts.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sstream>

#include "bench/cluster/schedulers/scheduler.h"
#include "bench/sweep/command_words.h"
#include "model/base/error.h"

namespace isobar::guest {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');)
    if (!one.empty()) out.push_back(one);
  return out;
}

/// The same on every node of a job step, and probably free.
int64_t port_of_step(const comm::Environment& environment) {
  std::string step;
  for (const char* name : {"SLURM_JOB_ID", "SLURM_STEP_ID", "PBS_JOBID", "PALS_APID"})
    if (const char* value = environment(name)) step.append(value).append("/");
  return 20000 + static_cast<int64_t>(std::hash<std::string>()(step) % 10000);
}

int64_t started_processes(const comm::Environment& environment) {
  int64_t n = 1;
  for (const comm::Launch::Claim& c : comm::launch_of(environment).claims) n = std::max(n, c.processes);
  return n;
}

void require_one_a_node(const RunSpec& spec, const comm::Environment& environment, int64_t started,
                        int64_t nodes) {
  const std::string n = std::to_string(started);
  const bool one_a_node =
      comm::launched_rank(environment) >= 0 && comm::launched_rank_on_host(environment) <= 0;
  if (!sweep::starts_on_every_node(spec) || !one_a_node || (nodes > 0 && nodes < started))
    throw ConfigError(
        spec.file, "run.command",
        "starts its ranks itself, and this process is one of " + n + " that a launcher started",
        "give the command once, without mpiexec and srun; or, with {node_rank} in it, once a node, "
        "as srun --ntasks-per-node=1 does");
  if (nodes == 0)
    throw ConfigError(spec.file, "run.command",
                      "is started on " + n + " nodes, whose names neither Slurm nor PBS tells",
                      std::string("set ") + sweep::kToldNodes + "=host1,host2 in the environment");
}

}  // namespace

std::vector<std::string> nodes_of_job(const comm::Environment& environment) {
  if (environment("SLURM_JOB_NODELIST")) return cluster::slurm()->own_nodes();
  // Containers have the variable without the file.
  if (const char* file = environment("PBS_NODEFILE"); file && std::filesystem::exists(file))
    return cluster::pbs()->own_nodes();
  return {};
}

GuestHosts guest_hosts(const RunSpec& spec, const comm::Environment& environment) {
  GuestHosts h;
  const int64_t started = started_processes(environment);
  h.started_on_each = started > 1;
  std::vector<std::string> names =
      environment(sweep::kToldNodes) ? split(environment(sweep::kToldNodes)) : nodes_of_job(environment);
  if (h.started_on_each) {
    h.rank = comm::launched_rank(environment);
    require_one_a_node(spec, environment, started, static_cast<int64_t>(names.size()));
    names.resize(started);
  }
  const bool each = sweep::starts_on_every_node(spec);
  if (names.size() > 1 && (each ? h.started_on_each : sweep::knows_nodes(spec))) h.names = names;
  h.port = environment(sweep::kToldPort) ? std::atoll(environment(sweep::kToldPort))
           : h.started_on_each           ? port_of_step(environment)
                                         : sweep::free_port();
  return h;
}

}  // namespace isobar::guest
