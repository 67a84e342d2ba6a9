// A file given by its path, or one that comes with Isobar by its name.
//
//   named_file("dgx-h100", {"/opt/isobar/configs/machines"}, "--machine", "a machine", "name a machine file")
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace isobar {

/// `named` where it is a file, or has a folder or an ending without digits; else NAME.yaml of the first
/// folder that has it. Throws ConfigError with `where` and the nearest names, or with `otherwise` where the
/// folders have none.
std::string named_file(const std::string& named, const std::vector<std::filesystem::path>& folders,
                       const std::string& where, const std::string& what, const std::string& otherwise);

/// A run configuration by its path, or a shipped one by its name: configs/models/NAME.yaml.
std::string run_file(const std::string& named, const std::string& where);

}  // namespace isobar
