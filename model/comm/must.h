// MPI errors as exceptions.
#pragma once
#include <mpi.h>

#include <stdexcept>
#include <string>

namespace isobar {

/// Throws std::runtime_error unless `code` is MPI_SUCCESS.
inline void must(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int n = 0;
  MPI_Error_string(code, text, &n);
  throw std::runtime_error(std::string(what) + ": " + std::string(text, n));
}

}  // namespace isobar
