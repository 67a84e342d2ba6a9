// What `isobar doctor` says of one thing that runs depend on: not whether it is there, but whether it works.
//
//   for (const Check& c : examine(request)) …
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/base/spec.h"
#include "model/engine/cpu_places.h"

namespace isobar {

enum class Health { ok, absent, look, failed };  // absent: an optional part; look: works, and costs

struct Check {
  std::string part, found;
  Health health = Health::ok;
  std::string mend = {};
  bool required = false;  // nothing runs without it
};

struct Examination {
  std::filesystem::path results = ".";      // where runs will write
  std::vector<std::string> two_ranks = {};  // the words that start `two_ranks_part` on two ranks
  std::string no_ranks = {};                // why there are no such words
  std::optional<RunSpec> run = {};          // whose data are opened
};

std::vector<Check> examine(const Examination& e);

// ---- its parts, in that order ----
std::vector<Check> examine_processor();  // and memory, libraries of kernels
Check examine_threads(const CpuPlaces& p);
Check examine_memory(const std::filesystem::path& root = "/");
std::vector<Check> examine_cores();
std::vector<Check> examine_clocks(const std::filesystem::path& sys = "/sys");
std::vector<Check> examine_limits();
Check examine_search_paths();
std::vector<Check> examine_ranks(const Examination& e);
std::vector<Check> examine_files(const Examination& e);
std::vector<Check> examine_scheduler();
std::vector<Check> examine_gpus();

/// What each of the two ranks does: adds its number up over both, and times messages; the first prints it.
void two_ranks_part();

}  // namespace isobar
