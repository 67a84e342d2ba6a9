#include "tests/paths.h"

namespace isobar {

std::string source_dir() {
  return ISOBAR_SOURCE_DIR;
}
std::string build_dir() {
  return ISOBAR_BINARY_DIR;
}
std::string preload(const std::string& name) {
  return build_dir() + "/tests/lib" + name + ".so";
}

}  // namespace isobar
