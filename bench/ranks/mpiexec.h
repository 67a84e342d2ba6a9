// The command line that runs this program on several ranks of this host, for execv: no shell is involved.
// Many machines have several MPIs, and another one's mpiexec starts processes that never find each other
// (model/comm/launcher.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace isobar::ranks {

/// By the first mpiexec in PATH of the MPI that this program is linked with, under the names mpiexec, mpirun
/// and those of distributions. Throws ConfigError with the ones found and the fix, and where the MPI is of no
/// known family.
std::vector<std::string> mpiexec_command(int64_t ranks);

/// The family of an MPI: Open MPI, or MPICH with its derivatives; "" where the text names neither.
std::string mpi_family(const std::string& text);

/// argv for execv; points into `args`.
std::vector<char*> argv_of(std::vector<std::string>& args);

}  // namespace isobar::ranks
