#include "model/engine/host/control_groups.h"

#include <fstream>

namespace isobar::engine {

namespace fs = std::filesystem;

std::vector<fs::path> control_groups(const std::string& controller, const fs::path& root) {
  std::vector<fs::path> out;
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // hierarchy:controllers:path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find("," + controller + ",") == std::string::npos) continue;
    const fs::path top = root / "sys/fs/cgroup" / (unified ? "" : controller);
    for (fs::path at = fs::path(line.substr(second + 1)).relative_path();; at = at.parent_path()) {
      out.push_back(top / at);
      if (at.empty()) break;
    }
  }
  return out;
}

}  // namespace isobar::engine
