// Lines of a log, and numbers behind words in them. Launchers put ranks and times before a line, and
// terminals colours into it: all are taken off here, for every reader.
//
//   for (const std::string& line : log_lines(log_text(file)))
//     if (auto ms = number_after(line, "elapsed time per iteration (ms):")) ...
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace isobar {

constexpr size_t kLongestLogLine = 1 << 20;  // bytes; no line with numbers is longer, the rest is left out

/// All of a file, inflated where gzip compressed it. Throws ConfigError, also for other compressions.
std::string log_text(const std::string& file);

enum class Times : uint8_t { kept, taken_off };

/// The line without what a launcher put before it: `0: ` (srun --label), `[1,0]<stdout>:` (mpirun
/// --tag-output), `[rank0]:` and `[default3]:` (torchrun), `[0] ` (hydra), `(pid=7) ` (Ray), `name | `
/// (docker compose), `node01: ` (pdsh) of the hosts that are named; and times (ts, kubectl) where they are
/// not wanted.
std::string_view without_labels(std::string_view line, Times times, const std::set<std::string>& hosts = {});

/// Without colours and labels; a progress bar that returns to its line's begin ends a line each time.
std::vector<std::string> log_lines(const std::string& text, Times times = Times::kept);

/// The text behind `words`, blanks left out; none: they are not in the line.
std::optional<std::string> text_after(const std::string& line, const std::string& words);

/// The number behind `words`; a comma between thousands belongs to it.
std::optional<double> number_after(const std::string& line, const std::string& words);

/// Seconds since 1970 of the first "2025-03-02 10:14:42" in a line, with ".123" or ",123" where it is there.
std::optional<double> clock_in(const std::string& line);

}  // namespace isobar
