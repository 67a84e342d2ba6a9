// Where what was made of data once is kept for the next run: $ISOBAR_CACHE_DIR, else isobar/ of
// $XDG_CACHE_HOME or
// ~/.cache. What lies there may be deleted at any time.
#pragma once
#include <filesystem>

namespace isobar {

/// Throws ConfigError where the environment names none.
std::filesystem::path cache_directory();

}  // namespace isobar
