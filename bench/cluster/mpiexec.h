// The mpiexec that belongs to the MPI which this program was built with: another one's starts processes that
// never find each other (model/comm/launcher.h), and several lie side by side on many machines.
//
//   const std::string mpiexec = mpiexec_of(Mpi::version());   // /usr/bin/mpiexec.mpich
#pragma once
#include <string>

namespace isobar {

/// Open MPI's or one of MPICH's descendants'; "" where the text names neither.
std::string mpi_family(const std::string& text);

/// Of those in PATH (mpiexec, mpirun, and the names that distributions give them beside each other), the
/// first that says it is of the same family. Throws ConfigError naming what was found, and the mend.
std::string mpiexec_of(const std::string& mpi_version);

}  // namespace isobar
