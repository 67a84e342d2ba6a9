// MPI errors as exceptions.
#pragma once
#include <mpi.h>

#include <new>
#include <stdexcept>
#include <string>

namespace isobar::comm {

/// Throws std::runtime_error unless `code` is MPI_SUCCESS; std::bad_alloc if memory ran out.
inline void must(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  int kind = code;
  MPI_Error_class(code, &kind);
  if (kind == MPI_ERR_NO_MEM) throw std::bad_alloc();
  char text[MPI_MAX_ERROR_STRING];
  int n = 0;
  MPI_Error_string(code, text, &n);
  throw std::runtime_error(std::string(what) + ": " + std::string(text, n));
}

}  // namespace isobar::comm
