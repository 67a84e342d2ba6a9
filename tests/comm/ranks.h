// For test programs that mpiexec starts on several ranks; link main.cpp instead of GoogleTest's main.
#pragma once
#include <gtest/gtest.h>
#include <mpi.h>

namespace isobar::comm {
extern int rank, world;  // of MPI_COMM_WORLD
}
