// The command line that runs this program on several ranks of this host, for execv: no shell is involved.
#pragma once
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "bench/cluster/schedulers/mpiexec.h"
#include "model/base/system/program.h"
#include "model/comm/comm.h"

namespace isobar::ranks {

inline std::vector<std::string> mpiexec_command(int64_t ranks) {
  const std::string self = own_program().string();
  if (self.empty()) throw std::runtime_error("cannot find the path of this program");
  std::vector<std::string> args = {cluster::mpiexec_of(comm::Mpi::version()), "-n", std::to_string(ranks)};
  if (cluster::mpi_family(comm::Mpi::version()) == "Open MPI") {
    // Ranks manage their own threads; more ranks than cores must work on a laptop.
    args.insert(args.end(), {"--bind-to", "none", "--oversubscribe"});
    if (::geteuid() == 0) args.emplace_back("--allow-run-as-root");
  }
  args.push_back(self);
  return args;
}

/// argv for execv; points into `args`.
inline std::vector<char*> argv_of(std::vector<std::string>& args) {
  std::vector<char*> argv;
  argv.reserve(args.size() + 1);
  for (std::string& s : args) argv.push_back(s.data());
  argv.push_back(nullptr);
  return argv;
}

}  // namespace isobar::ranks
