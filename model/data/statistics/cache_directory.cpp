#include "model/data/statistics/cache_directory.h"

#include <cstdlib>

#include "model/base/error.h"

namespace isobar::data {

std::filesystem::path cache_directory() {
  const auto of = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value ? value : "");
  };
  if (!of("ISOBAR_CACHE_DIR").empty()) return of("ISOBAR_CACHE_DIR");
  if (!of("XDG_CACHE_HOME").empty()) return of("XDG_CACHE_HOME") / "isobar";
  if (!of("HOME").empty()) return of("HOME") / ".cache" / "isobar";
  throw ConfigError("environment", "ISOBAR_CACHE_DIR", "is not set, and neither is HOME",
                    "name a directory for what is kept of data");
}

}  // namespace isobar::data
