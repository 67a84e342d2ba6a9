// Properties of the host and of this process.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/comm/comm.h"

namespace isobar::engine {

int64_t resident_bytes();            // current, of this process
int64_t peak_resident_bytes();       // maximum so far
int64_t file_resident_bytes();       // current pages of programs and libraries, which processes share
int cores();                         // available to this process (cpu_places.h)
int cores_of(const comm::Mpi& mpi);  // available to this host's ranks together, bound by a launcher or not
std::string cpu_name();
std::string host_name();
double cores_mhz();  // current mean clock of this process's cores; 0: not available
/// commit, host, cpu, cores, isa (oneDNN's), kernels (Isobar's: avx2 …), bf16_mode, f16_mode, tf32_mode,
/// compiler, build_type, onednn, mpi, kernel, env: recorded in every result
nlohmann::json provenance();
std::string utc_now();  // 2026-01-31T12:00:00Z

}  // namespace isobar::engine
