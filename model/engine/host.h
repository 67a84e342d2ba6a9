// What the host says about itself and about this process.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/comm/comm.h"

namespace isobar {

int64_t resident_bytes();       // of this process, now
int64_t peak_resident_bytes();  // most so far
int64_t file_resident_bytes();  // of it now, pages of programs and libraries: a host's processes share them
int cores();                    // that this process may use (cpu_places.h)
int cores_of(const Mpi& mpi);   // that this host's ranks have together, bound by a launcher or not
std::string cpu_name();
std::string host_name();
double cores_mhz();  // of those that this process may run on, the mean, now; 0: not told
/// commit, host, cpu, cores, isa (oneDNN's), kernels (ours: avx2 …), bf16_mode, f16_mode, tf32_mode,
/// compiler, build_type, onednn, mpi, kernel, env: stands in every result
nlohmann::json provenance();
std::string utc_now();  // 2026-01-31T12:00:00Z

}  // namespace isobar
