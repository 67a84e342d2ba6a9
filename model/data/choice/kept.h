// Files kept of data for the next run (cache_directory.h) are believed only as far as they can be checked: a
// file is known by more than its size and time, and what is kept has a digest of itself. Nothing that is
// damaged is an error: it is made again, and one line says so.
//
//   what["files"].push_back(identity_of(path, about));       // part of the entry's key
//   if (const auto j = read_kept(file, "computed")) return *j;
//   write_kept(file, statistics);                            // {"sha256": …, "value": …}
#pragma once
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace isobar::data {

/// Path, inode, size, mtime and ctime; ctime also detects a replacement of the same size and mtime, because
/// no program can set it.
nlohmann::json identity_of(const std::filesystem::path& path, const struct stat& about);
/// True where a next change would have another time: not within this clock's tick of the last one.
bool settled(const struct stat& about);

/// None when the entry is absent or damaged; for a damaged one prints that it is `made` again, such as
/// "computed" ("": prints nothing).
std::optional<nlohmann::json> read_kept(const std::filesystem::path& file, const std::string& made);
/// Throws std::system_error.
void write_kept(const std::filesystem::path& file, const nlohmann::json& value);
void say_made_again(const std::filesystem::path& file, const std::string& why, const std::string& made);

/// SHA-256 of the digests of 4 MiB blocks, computed by several threads, for large buffers.
std::string digest_of_blocks(const void* bytes, size_t count);

}  // namespace isobar::data
