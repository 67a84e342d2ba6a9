// Cache entries for later runs (cache_directory.h). An entry is used only if it can be verified: input files
// are identified by more than size and time, and the entry contains its own digest. A damaged entry is not an
// error: it is made again, with one line on stderr.
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

namespace isobar {

/// Path, inode, size, mtime and ctime; ctime also detects a replacement of the same size and mtime, because
/// no program can set it.
nlohmann::json identity_of(const std::filesystem::path& path, const struct stat& about);
/// True when a later change must get a different time; false within the clock's tick after the last change.
bool settled(const struct stat& about);

/// None when the entry is absent or damaged; for a damaged one prints that it is `made` again, such as
/// "computed" ("": prints nothing).
std::optional<nlohmann::json> read_kept(const std::filesystem::path& file, const std::string& made);
/// Throws std::system_error.
void write_kept(const std::filesystem::path& file, const nlohmann::json& value);
void say_made_again(const std::filesystem::path& file, const std::string& why, const std::string& made);

/// SHA-256 of the digests of 4 MiB blocks, computed by several threads, for large buffers.
std::string digest_of_blocks(const void* bytes, size_t count);

}  // namespace isobar
