// Lines of a log, and numbers after given words. Removes the ranks and times that launchers prepend and
// terminal colours.
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

namespace isobar::logs {

constexpr size_t kLongestLogLine = 1 << 20;  // bytes; no line with numbers is longer, the rest is left out

/// All of a file, inflated where gzip compressed it. Throws ConfigError, also for other compressions.
std::string log_text(const std::string& file);

enum class Times : uint8_t { kept, taken_off };

/// Strips a launcher's label: `0: ` (srun --label), `[1,0]<stdout>:` (mpirun --tag-output), `[rank0]:` and
/// `[default3]:` (torchrun), `[0] ` (hydra), `(pid=7) ` (Ray), `name | ` (docker compose), `node01: ` (pdsh)
/// for names in `hosts`; and times (ts, kubectl) with Times::taken_off.
std::string_view without_labels(std::string_view line, Times times, const std::set<std::string>& hosts = {});

std::string without_colours(std::string_view text);
/// A line as its program wrote it: without colours, labels and a time before it.
std::string plain_line(std::string_view line);

/// The lines without colours and labels. A carriage return, as in progress bars, ends a line.
std::vector<std::string> log_lines(const std::string& text, Times times = Times::kept);

/// The text after `words` and blanks; none: not in the line.
std::optional<std::string_view> text_after(std::string_view line, std::string_view words);

std::string lower_case(std::string_view text);

/// The number at the begin of `text` after blanks, which may have thousands separators, be infinite or NaN;
/// `rest`: the text behind it, such as "ms" of "12ms".
std::optional<double> number_at(std::string_view text, std::string_view* rest = nullptr);
/// The same where no unit is behind it: "250", not "250 ms"; a blank, comma or bracket may be.
std::optional<double> number_without_unit(std::string_view text);
/// The finite number after `words`.
std::optional<double> number_after(std::string_view line, std::string_view words);

/// The first time like "2025-03-02 10:14:42" in a line, with an optional ".123" or ",123", in seconds since
/// 1970.
std::optional<double> clock_in(const std::string& line);

}  // namespace isobar::logs
