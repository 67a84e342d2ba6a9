// The launcher of this process and its number of processes, from the environment. Compared with MPI's world:
// N processes that do not join would each train alone as rank 0 of 1, into one folder.
//
//   if (launch_of(environment).size > 1) …                   // before MPI is initialised
//   check_launch(launch_of(environment), mpi_size, "Open MPI v4.1.4");
//
// Variables: Open MPI (orterun), PMI (Hydra of MPICH and Intel MPI, Slurm's PMI2), MVAPICH2, Slurm (srun),
// PALS (HPE's and Intel's Aurora), Flux, JSM, Horovod, torchrun (TorchElastic, and those that set the same).
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace isobar::comm {

using Environment = std::function<const char*(const char*)>;  // nullptr: not set; for example ::getenv

struct Launch {
  struct Claim {
    std::string launcher, variable;  // "srun", "SLURM_STEP_NUM_TASKS"
    int64_t processes;
  };
  std::vector<Claim> claims;  // several if launchers are nested: mpiexec within srun
  bool joined = false;        // MPI's processes have a way to find each other

  bool started() const;  // true for a launcher's process; false for a shell within `srun -n 1`
};

Launch launch_of(const Environment& environment);

/// This process' rank among all, and on its host, before MPI begins; -1: unknown.
int launched_rank(const Environment& environment);
int launched_rank_on_host(const Environment& environment);

/// MPI_Get_library_version in short: "Open MPI v4.1.4", "MPICH 4.0.2".
std::string short_version(const std::string& text);

/// Throws ConfigError with launcher, variable and remedy if several processes were started and MPI cannot
/// join them. Called before MPI is initialised, since some MPIs abort there with a page of text.
void check_joined(const Launch& launch, const std::string& mpi);

/// The same if the size of MPI's world is none that a launcher claims.
void check_launch(const Launch& launch, int64_t mpi_size, const std::string& mpi);

}  // namespace isobar::comm
