// The host's memory, and the part of it that control groups (a container, a job) allow this process.
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "bench/doctor/check.h"
#include "model/base/text/printed.h"
#include "model/engine/host/control_groups.h"

namespace isobar::doctor {
namespace {

constexpr double kGiB = 1 << 30;

std::string word_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

/// No limit is "max" in version 2, and a number of pages near 2^63 in version 1.
std::optional<double> bytes_in(const std::filesystem::path& file) {
  const std::string word = word_of(file);
  char* end = nullptr;
  const double bytes = std::strtod(word.c_str(), &end);
  if (end == word.c_str() || bytes >= 0x1p62) return std::nullopt;
  return bytes;
}

struct GroupMemory {
  double limit = 0, used = 0;
};

/// The smallest limit: a process is bound by its group's and by those of all groups above it.
std::optional<GroupMemory> group_memory(const std::filesystem::path& root) {
  std::optional<GroupMemory> least;
  for (const auto& group : engine::control_groups("memory", root))
    for (const auto& [limit, usage] :
         {std::pair{"memory.max", "memory.current"}, {"memory.limit_in_bytes", "memory.usage_in_bytes"}})
      if (const auto bytes = bytes_in(group / limit); bytes && (!least || *bytes < least->limit))
        least = {*bytes, bytes_in(group / usage).value_or(0)};
  return least;
}

}  // namespace

Check examine_memory(const std::filesystem::path& root) {
  const double all =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  const std::string text = printed("%.1f GiB", all / kGiB);
  const auto group = group_memory(root);
  if (!group || group->limit >= all) return {"memory", text};
  return {"memory",
          text + printed(", of which the control group allows %.1f GiB (%.1f GiB are in use)",
                         group->limit / kGiB, group->used / kGiB),
          Health::look,
          "the kernel kills what needs more: ask for more (Slurm --mem, PBS mem=, a container's --memory), "
          "or take "
          "smaller runs"};
}

}  // namespace isobar::doctor
