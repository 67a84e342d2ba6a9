#include "model/base/names/search_paths.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace isobar {
namespace {

using Parts = std::vector<std::string>;

TEST(SearchPaths, OnlyAbsolutePartsAreKept) {
  EXPECT_EQ(absolute_parts("/usr/bin:/bin"), (Parts{"/usr/bin", "/bin"}));
  EXPECT_EQ(absolute_parts(":/usr/bin::.:bin:../x:~/b:/bin:"), (Parts{"/usr/bin", "/bin"}));
  EXPECT_EQ(absolute_parts("/a;b;/c:/d", ":;"), (Parts{"/a", "/c", "/d"}));
  for (const char* none : {"", ":", ".", "::"}) EXPECT_EQ(absolute_parts(none), Parts{}) << none;
}

TEST(SearchPaths, TheEnvironmentLosesItsRelativeParts) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (path + ":.").c_str(), 1);
  ::setenv("LD_LIBRARY_PATH", "/opt/lib:", 1);
  ::setenv("PYTHONPATH", ":", 1);
  keep_to_absolute_search_paths();
  EXPECT_EQ(std::getenv("PATH"), path);
  EXPECT_STREQ(std::getenv("LD_LIBRARY_PATH"), "/opt/lib");
  EXPECT_EQ(std::getenv("PYTHONPATH"), nullptr);
  EXPECT_EQ(relative_search_paths(), (Parts{"PATH", "LD_LIBRARY_PATH", "PYTHONPATH"}));
  ::unsetenv("LD_LIBRARY_PATH");
}

}  // namespace
}  // namespace isobar
