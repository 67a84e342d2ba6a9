#include "model/base/names/search_paths.h"

#include <cstdlib>

#include "model/base/text/joined.h"

namespace isobar {
namespace {

struct SearchPath {
  const char *name, *separators;
};
constexpr SearchPath kSearchPaths[] = {{"PATH", ":"}, {"LD_LIBRARY_PATH", ":;"}, {"PYTHONPATH", ":"}};

std::vector<std::string> parts_of(const std::string& list, const std::string& separators) {
  std::vector<std::string> parts;
  for (size_t at = 0;; ++at) {
    const size_t end = list.find_first_of(separators, at);
    parts.push_back(list.substr(at, end - at));
    if (end == std::string::npos) return parts;
    at = end;
  }
}

std::vector<std::string>& changed() {
  static std::vector<std::string> names;
  return names;
}

}  // namespace

std::vector<std::string> absolute_parts(const std::string& list, const std::string& separators) {
  std::vector<std::string> parts = parts_of(list, separators);
  std::erase_if(parts, [](const std::string& p) { return !p.starts_with('/'); });
  return parts;
}

void keep_to_absolute_search_paths() {
  for (const SearchPath& s : kSearchPaths) {
    const char* const value = std::getenv(s.name);
    if (!value) continue;
    const std::string before = value;
    const std::vector<std::string> parts = absolute_parts(before, s.separators);
    if (parts.size() == parts_of(before, s.separators).size()) continue;
    if (!before.empty() || std::string(s.name) == "PATH") changed().push_back(s.name);
    const std::string after = joined(parts, ":");
    // An empty PATH also means the working directory; without PATH, the system's default is used.
    if (after.empty())
      ::unsetenv(s.name);
    else
      ::setenv(s.name, after.c_str(), 1);
  }
}

const std::vector<std::string>& relative_search_paths() {
  return changed();
}

}  // namespace isobar
