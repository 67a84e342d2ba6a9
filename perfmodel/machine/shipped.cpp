#include "perfmodel/machine/shipped.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "model/base/error.h"
#include "model/base/names/named_file.h"
#include "model/base/system/program.h"
#include "model/base/text/yaml.h"

namespace isobar::perf {
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
  return named_file(named, machine_folders(), where, "a machine",
                    "name a machine file (isobar calibrate writes one)");
}

}  // namespace isobar::perf
