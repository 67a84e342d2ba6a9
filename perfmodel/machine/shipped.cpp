#include "perfmodel/machine/shipped.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "model/base/did_you_mean.h"
#include "model/base/error.h"
#include "model/base/program.h"
#include "model/base/yaml.h"
#include "perfmodel/machine/machine_file.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> machine_folders() {
  std::vector<fs::path> folders;
  if (const char* own = std::getenv("ISOBAR_MACHINES")) {
    std::istringstream in(own);
    for (std::string folder; std::getline(in, folder, ':');) {
      if (folder.empty()) continue;
      std::error_code none;
      if (!fs::is_directory(folder, none))
        throw ConfigError("ISOBAR_MACHINES", folder, "is not a folder",
                          "name folders of machine files, with colons between, or unset the variable");
      folders.emplace_back(folder);
    }
  }
  if (const fs::path own = file_of_program("configs/machines"); !own.empty()) folders.push_back(own);
  return folders;
}

}  // namespace

std::string shipped(const std::string& folder) {
  const fs::path own = file_of_program(folder);
  if (own.empty())
    throw ConfigError(folder, "", "is not beside the program",
                      "install isobar whole, or run it where it was built");
  return own.string();
}

std::vector<std::string> files_in(const std::string& folder, const std::string& ending) {
  std::vector<std::string> files;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(folder, gone))
    if (entry.path().extension() == ending) files.push_back(entry.path().string());
  if (files.empty())
    throw ConfigError(
        folder, "", gone ? "is not there: " + gone.message() : "holds no " + ending + " file",
        "name a folder that has some; those that come with Isobar lie beside its build, in configs");
  std::sort(files.begin(), files.end());
  return files;
}

std::string machine_file(const std::string& named, const std::string& where) {
  const fs::path given(named);
  std::error_code none;
  const bool there = fs::exists(given, none) && !fs::is_directory(given, none);
  if (there || named.empty() || given.has_parent_path() || given.has_extension()) return named;
  std::vector<std::string> known;
  const std::vector<fs::path> folders = machine_folders();
  for (const fs::path& folder : folders) {
    const fs::path file = folder / (named + ".yaml");
    if (fs::is_regular_file(file, none)) return file.string();
    for (const auto& entry : fs::directory_iterator(folder, none))
      if (entry.path().extension() == ".yaml") known.push_back(entry.path().stem().string());
  }
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  throw ConfigError(where, named, "is neither a file here nor the name of a machine that comes with Isobar",
                    known.empty() ? "name a machine file (isobar calibrate writes one)"
                                  : "the nearest names: " + nearest_few(named, known));
}

}  // namespace isobar
