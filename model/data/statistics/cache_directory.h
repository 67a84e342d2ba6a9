// The directory of caches made from data files, kept for the next run: $ISOBAR_CACHE_DIR, else isobar/ in
// $XDG_CACHE_HOME or ~/.cache. Its files may be deleted at any time.
#pragma once
#include <filesystem>

namespace isobar::data {

/// Throws ConfigError when the environment names no directory.
std::filesystem::path cache_directory();

}  // namespace isobar::data
