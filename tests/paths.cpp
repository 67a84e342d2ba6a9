#include "tests/paths.h"

#include <cstdlib>

namespace isobar {
namespace {

std::string set_or(const char* variable, const char* otherwise) {
  const char* const set = std::getenv(variable);
  return set ? set : otherwise;
}

}  // namespace

std::string source_dir() {
  return set_or("ISOBAR_TEST_SOURCE", ISOBAR_SOURCE_DIR);
}
std::string build_dir() {
  return set_or("ISOBAR_TEST_BUILD", ISOBAR_BINARY_DIR);
}
std::string preload(const std::string& name) {
  return build_dir() + "/tests/lib" + name + ".so";
}

}  // namespace isobar
