// Files that survive a kill at any moment.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace isobar {

/// Writes beside `path`, fsyncs, renames over it and fsyncs the directory: readers see the old or the new
/// file.
void write_atomically(const std::filesystem::path& path, std::string_view bytes);
/// Appends one line with a single write(2) and fsync; a line torn by a kill is ignored by read_json_lines.
void append_line(const std::filesystem::path& path, std::string_view line);
std::string read_file(const std::filesystem::path& path);  // throws ConfigError when it is missing

}  // namespace isobar
