#include "model/comm/launcher.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

#include "model/base/error.h"

namespace isobar::comm {
namespace {

struct Variable {
  const char* launcher;
  const char* processes;               // variable with their number
  std::array<const char*, 3> needs{};  // one of these must also be set, since the name alone is ambiguous
};

constexpr Variable kVariables[] = {
    {"Open MPI's mpiexec", "OMPI_COMM_WORLD_SIZE"},
    {"mpiexec (MPICH, Intel MPI) or srun", "PMI_SIZE"},
    {"MVAPICH2's mpiexec", "MV2_COMM_WORLD_SIZE"},
    {"PALS' mpiexec", "PALS_SIZE"},
    {"srun", "SLURM_STEP_NUM_TASKS"},
    {"flux run", "FLUX_JOB_SIZE"},
    {"jsrun", "JSM_NAMESPACE_SIZE"},
    {"horovodrun", "HOROVOD_SIZE", {"HOROVOD_RANK"}},
    {"torchrun",  // and those that set what PyTorch reads: accelerate, deepspeed
     "WORLD_SIZE",
     {"TORCHELASTIC_RUN_ID", "RANK", "LOCAL_RANK"}}};

bool is_meant(const Variable& v, const Environment& environment) {
  return !v.needs[0] || std::any_of(v.needs.begin(), v.needs.end(),
                                    [&](const char* name) { return name && environment(name); });
}

// Variables by which an MPI finds its other processes.
constexpr const char* kMeetingPlaces[] = {
    "OMPI_COMM_WORLD_SIZE", "PMI_RANK",   "PMI_FD", "PMIX_RANK", "PMIX_NAMESPACE",
    "MV2_COMM_WORLD_SIZE",  "PALS_RANKID"};

int first_of(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* rank = environment(name)) return std::atoi(rank);
  return -1;
}

const Launch::Claim& largest(const Launch& launch) {
  return *std::max_element(launch.claims.begin(), launch.claims.end(),
                           [](const auto& a, const auto& b) { return a.processes < b.processes; });
}

std::string mend_of(const Launch::Claim& claim, const std::string& mpi) {
  const std::string n = std::to_string(claim.processes);
  if (claim.launcher == "torchrun" || claim.launcher == "horovodrun")
    return "start it by itself with isobar train --ranks " + n + ", or under mpiexec -n " + n;
  if (claim.variable == "SLURM_STEP_NUM_TASKS")
    return "give srun the PMI that this MPI speaks (--mpi=pmix or --mpi=pmi2; srun --mpi=list names them), "
           "or "
           "use mpiexec -n " +
           n + "; a run of its own for each task: mpiexec -n 1 within it";
  return "use the mpiexec of " + mpi + ", which this program was built with (isobar doctor names it)";
}

[[noreturn]] void refuse(const Launch::Claim& claim, const std::string& sees, const std::string& mpi) {
  throw ConfigError(claim.variable, "",
                    claim.launcher + " has started " + std::to_string(claim.processes) + " processes, and " +
                        mpi + " " + sees,
                    mend_of(claim, mpi));
}

}  // namespace

bool Launch::started() const {
  return joined || std::any_of(claims.begin(), claims.end(), [](const Claim& c) { return c.processes > 1; });
}

Launch launch_of(const Environment& environment) {
  Launch out;
  for (const Variable& v : kVariables)
    if (const char* n = environment(v.processes); n && is_meant(v, environment))
      out.claims.push_back({v.launcher, v.processes, std::strtoll(n, nullptr, 10)});
  for (const char* name : kMeetingPlaces) out.joined |= environment(name) != nullptr;
  return out;
}

int launched_rank(const Environment& environment) {
  return first_of(environment, {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK",
                                "PALS_RANKID", "SLURM_PROCID", "FLUX_TASK_RANK"});
}

int launched_rank_on_host(const Environment& environment) {
  return first_of(environment, {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK",
                                "PALS_LOCAL_RANKID", "SLURM_LOCALID", "FLUX_TASK_LOCAL_ID"});
}

std::string short_version(const std::string& text) {
  std::istringstream words(text.substr(0, text.find_first_of(",\n")));
  std::string out;
  for (std::string word; words >> word;)
    if (word != "Version:" && word != ":") out += (out.empty() ? "" : " ") + word;
  return out;
}

void check_joined(const Launch& launch, const std::string& mpi) {
  if (launch.joined || launch.claims.empty()) return;
  if (const Launch::Claim& claim = largest(launch); claim.processes > 1)
    refuse(claim, "has nothing by which they find each other", mpi);
}

void check_launch(const Launch& launch, int64_t mpi_size, const std::string& mpi) {
  if (launch.claims.empty()) return;
  for (const Launch::Claim& c : launch.claims)
    if (c.processes == mpi_size) return;
  refuse(largest(launch), "sees " + std::to_string(mpi_size), mpi);
}

}  // namespace isobar::comm
