#!/usr/bin/env bash
# Makes a libmpi.so.40 for programs that are to start without MPI: bench/site/no_mpi.sh PROGRAM FILE
#
# A program without a launcher calls nothing of MPI but the name of its version (model/comm/comm.h). Here that says that
# there is none, and every other function that PROGRAM needs returns an error which says so. An Open MPI 4 in
# LD_LIBRARY_PATH comes before it.
set -euo pipefail

functions="$(nm -D --undefined-only "$1" | sed -n 's/^ *U \(MPI_[A-Za-z_]*\)$/\1/p')"
objects="$(readelf -W --dyn-syms "$1" | awk '$4 == "OBJECT" && $8 ~ /^ompi_/ { print $3, $8 }')"
{
  echo '#include <string.h>'
  echo 'static const char says[] = "no MPI";'
  while read -r name; do
    case "$name" in
      MPI_Get_library_version) echo "int $name(char* text, int* n) { strcpy(text, says); *n = (int)strlen(says); return 0; }" ;;
      MPI_Error_string) echo "int $name(int e, char* text, int* n) { (void)e; strcpy(text, says); *n = (int)strlen(says); return 0; }" ;;
      *) echo "int $name(void) { return 16; }" ;;  # MPI_ERR_OTHER
    esac
  done <<<"$functions"
  # Handles, which the program copies
  while read -r size name; do echo "char $name[$size];"; done <<<"$objects"
} | cc -shared -fPIC -O1 -x c - -o "$2" -Wl,-soname,libmpi.so.40 -Wl,-z,relro,-z,now
