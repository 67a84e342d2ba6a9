// The mpiexec of the MPI that this program is linked with: many machines have several, and another MPI's
// starts processes that never find each other (model/comm/launcher.h).
//
//   const std::string mpiexec = mpiexec_of(Mpi::version());   // /usr/bin/mpiexec.mpich
#pragma once
#include <string>

namespace isobar::cluster {

/// The family: Open MPI, or MPICH with its derivatives; "" where the text names neither.
std::string mpi_family(const std::string& text);

/// The first mpiexec of that family in PATH, under the names mpiexec, mpirun and those of distributions.
/// Throws ConfigError with the ones found and the fix, and where the text names no family.
std::string mpiexec_of(const std::string& mpi_version);

}  // namespace isobar::cluster
