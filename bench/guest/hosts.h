// The nodes of a run.command: their names, and which of them this is. Jobs of --launcher say so in the
// environment; a job of the user's by Slurm's and PBS' variables and those of the launcher that started this.
//
//   const GuestHosts hosts = guest_hosts(spec, ::getenv);
//   hosts.names[0], hosts.port       // where its processes meet
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/comm/launcher.h"

namespace isobar::guest {

struct GuestHosts {
  std::vector<std::string> names = {"localhost"};  // the first is where processes meet
  int64_t rank = 0;                                // this one's among them
  int64_t port = 0;                                // of the first: free when this was asked for
  bool started_on_each = false;                    // a launcher has started this on every node
  int64_t count() const { return static_cast<int64_t>(names.size()); }
  /// Processes of node `rank`, of `ranks` in all.
  int64_t ranks_here(int64_t ranks) const { return ranks / count() + (rank < ranks % count()); }
};

/// Names of the nodes of the job that this runs in; empty in no job.
std::vector<std::string> nodes_of_job(const comm::Environment& environment);
/// One node where run.command has no word for several. Throws ConfigError where their names cannot be known.
GuestHosts guest_hosts(const RunSpec& spec, const comm::Environment& environment);
}  // namespace isobar::guest
