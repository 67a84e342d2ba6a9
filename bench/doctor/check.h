// One check of `isobar doctor`: it tests that a part works, not only that it exists.
//
//   for (const Check& c : examine(request)) …
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/engine/host/cpu_places.h"

namespace isobar::doctor {

enum class Health { ok, absent, look, failed };  // absent: an optional part; look: works, at a cost

struct Check {
  std::string part, found;
  Health health = Health::ok;
  std::string mend = {};
  bool required = false;  // nothing runs without it
};

struct Examination {
  std::filesystem::path results = ".";      // where runs will write
  std::vector<std::string> two_ranks = {};  // command that runs `two_ranks_part` on two ranks
  std::string no_ranks = {};                // why there is no such command
  std::optional<RunSpec> run = {};          // its data are opened
};

std::vector<Check> examine(const Examination& e);

// ---- the checks that have files of their own or are tested alone ----
std::vector<Check> examine_processor();  // with memory and kernel libraries
Check examine_threads(const engine::CpuPlaces& p);
Check examine_memory(const std::filesystem::path& root = "/");
std::vector<Check> examine_cores();
std::vector<Check> examine_clocks(const std::filesystem::path& sys = "/sys");
std::vector<Check> examine_ranks(const Examination& e);
std::vector<Check> examine_files(const Examination& e);

/// Runs on each of two ranks: sums a number over both and times messages; rank 0 prints the result.
void two_ranks_part();

}  // namespace isobar::doctor
