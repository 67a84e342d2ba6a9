#include "model/base/names/named_file.h"

#include <algorithm>

#include "model/base/error.h"
#include "model/base/names/did_you_mean.h"
#include "model/base/system/program.h"

namespace isobar {

namespace fs = std::filesystem;

std::string named_file(const std::string& named, const std::vector<fs::path>& folders,
                       const std::string& where, const std::string& what, const std::string& otherwise) {
  const fs::path given(named);
  std::error_code none;
  // llama3.2-1b has what filesystem takes for an ending.
  const std::string ending = given.extension().string();
  const bool file = ending.size() > 1 && ending.find_first_of("0123456789") == std::string::npos;
  const bool there = fs::exists(given, none) && !fs::is_directory(given, none);
  if (named.empty() || given.has_parent_path() || file || there) return named;
  std::vector<std::string> known;
  for (const fs::path& folder : folders) {
    const fs::path file = folder / (named + ".yaml");
    if (fs::is_regular_file(file, none)) return file.string();
    for (const auto& entry : fs::directory_iterator(folder, none))
      if (entry.path().extension() == ".yaml") known.push_back(entry.path().stem().string());
  }
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  throw ConfigError(where, named,
                    "is neither a file here nor the name of " + what + " that comes with Isobar",
                    known.empty() ? otherwise : "the nearest names: " + nearest_few(named, known));
}

std::string run_file(const std::string& named, const std::string& where) {
  std::vector<fs::path> folders;
  if (const fs::path own = file_of_program("configs/models"); !own.empty()) folders.push_back(own);
  return named_file(named, folders, where, "a model", "name a run configuration (YAML)");
}

}  // namespace isobar
