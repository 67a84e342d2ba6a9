// Who started this process, and how many beside it, as its environment says. Held against the size of MPI's
// world: N processes that do not find each other would each train alone, as rank 0 of 1, into one folder.
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

namespace isobar {

using Environment = std::function<const char*(const char*)>;  // nullptr: not set; ::getenv is one

struct Launch {
  struct Claim {
    std::string launcher, variable;  // "srun", "SLURM_STEP_NUM_TASKS"
    int64_t processes;
  };
  std::vector<Claim> claims;  // one launcher may have been started by another: srun by mpiexec
  bool joined = false;        // something is there by which MPI's processes find each other

  bool started() const;  // by a launcher, as one of its processes; a shell within `srun -n 1` is none
};

Launch launch_of(const Environment& environment);

/// This process' rank among all, and on its host, before MPI begins; -1: no launcher says.
int launched_rank(const Environment& environment);
int launched_rank_on_host(const Environment& environment);

/// What MPI_Get_library_version says, in a few words: "Open MPI v4.1.4", "MPICH 4.0.2".
std::string short_version(const std::string& text);

/// Throws ConfigError, naming launcher, variable and mend, where several processes were started and MPI
/// cannot join them: before MPI is initialised, since some abort there with a page of text.
void check_joined(const Launch& launch, const std::string& mpi);

/// The same where MPI's world, which is there now, is none of those that launchers speak of.
void check_launch(const Launch& launch, int64_t mpi_size, const std::string& mpi);

}  // namespace isobar
