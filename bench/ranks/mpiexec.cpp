#include "bench/ranks/mpiexec.h"

#include <unistd.h>

#include <set>
#include <stdexcept>

#include "bench/cluster/command.h"
#include "model/base/error.h"
#include "model/base/system/program.h"
#include "model/comm/comm.h"

namespace isobar::ranks {
namespace {

bool names(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words)
    if (text.find(word) != std::string::npos) return true;
  return false;
}

}  // namespace

std::string mpi_family(const std::string& text) {
  if (names(text, {"Open MPI", "OpenRTE", "PRRTE", "prterun"})) return "Open MPI";
  if (names(text, {"MPICH", "HYDRA", "Intel(R) MPI", "MVAPICH", "PALS"})) return "MPICH";
  return "";
}

namespace {

std::string mpiexec_of(const std::string& mpi_version) {
  const std::string family = mpi_family(mpi_version);
  if (family.empty())
    throw ConfigError(
        "MPI", "", "is missing: several ranks need one, and this program has " + mpi_version,
        "load a module of Open MPI 4, whose libmpi.so.40 is then taken (LD_LIBRARY_PATH), or use a "
        "bundle (bench/site/README.md)");
  const char* own = family == "Open MPI" ? "mpiexec.openmpi" : "mpiexec.hydra";
  const char* named = family == "Open MPI" ? "mpirun.openmpi" : "mpiexec.mpich";
  std::string others;
  std::set<std::string> seen;
  for (const std::string name : {"mpiexec", own, named, "mpirun"}) {
    const std::string path = program_in_path(name);
    if (path.empty() || !seen.insert(path).second) continue;
    const cluster::Said said = cluster::say({path, "--version"}, {.timeout_s = 20});
    const std::string is = mpi_family(said.out + said.err);
    if (said.code == 0 && !is.empty() && is == family) return path;
    others +=
        (others.empty() ? "" : "; ") + path +
        (said.code != 0 ? " does not start" : " is " + (is.empty() ? "of no MPI known here" : is + "'s"));
  }
  throw ConfigError("PATH", "",
                    "has no mpiexec of " + mpi_version + ", which this program was built with" +
                        (others.empty() ? "" : " (" + others + ")"),
                    family == "Open MPI" ? "apt-get install openmpi-bin, or load its module"
                                         : "apt-get install mpich, or load its module");
}

}  // namespace

std::vector<std::string> mpiexec_command(int64_t ranks) {
  const std::string self = own_program().string();
  if (self.empty()) throw std::runtime_error("cannot find the path of this program");
  std::vector<std::string> args = {mpiexec_of(comm::Mpi::version()), "-n", std::to_string(ranks)};
  if (mpi_family(comm::Mpi::version()) == "Open MPI") {
    // Ranks manage their own threads; more ranks than cores must work on a laptop.
    args.insert(args.end(), {"--bind-to", "none", "--oversubscribe"});
    if (::geteuid() == 0) args.emplace_back("--allow-run-as-root");
  }
  args.push_back(self);
  return args;
}

std::vector<char*> argv_of(std::vector<std::string>& args) {
  std::vector<char*> argv;
  argv.reserve(args.size() + 1);
  for (std::string& s : args) argv.push_back(s.data());
  argv.push_back(nullptr);
  return argv;
}

}  // namespace isobar::ranks
