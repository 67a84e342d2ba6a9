// Files kept of data for the next run (cache_directory.h) are believed only as far as they can be checked: a
// file is known by more than its size and time, and what is kept has a digest of itself. Nothing that is
// damaged is an error: it is made again, and one line says so.
//
//   what["files"].push_back(identity_of(path, about));       // a key of what is made of the file
//   if (const auto j = read_kept(file, "computed")) return *j;
//   write_kept(file, statistics);                            // {"sha256": …, "value": …}
#pragma once
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace isobar {

/// Path, inode, size, the time of its content (mtime) and that of any change (ctime): who replaces a file by
/// one of the same size and mtime cannot choose the last.
nlohmann::json identity_of(const std::filesystem::path& path, const struct stat& about);
/// True where a next change would have another time: not within this clock's tick of the last one.
bool settled(const struct stat& about);

/// Nothing where there is none, or where it is damaged: then it says that it is `made` again ("": says
/// nothing).
std::optional<nlohmann::json> read_kept(const std::filesystem::path& file, const std::string& made);
/// Throws std::system_error.
void write_kept(const std::filesystem::path& file, const nlohmann::json& value);
void say_made_again(const std::filesystem::path& file, const std::string& why, const std::string& made);

/// SHA-256 of the digests of blocks of 4 MiB, by some threads: of large numbers of bytes in memory.
std::string digest_of_blocks(const void* bytes, size_t count);

}  // namespace isobar
