// Checks of CUDA's libraries before a run, against fake libraries with other versions.
#include "model/backend/cuda/runtime/requirements.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/engine/command.h"

namespace isobar::cuda {
namespace {

TEST(Requirements, EveryLibraryThatIsHereSaysItsVersion) {
  for (const LibraryFound& l : find_libraries()) {
    EXPECT_FALSE(l.use.empty()) << l.file;
    EXPECT_TRUE(l.ok() || !l.problem.empty()) << l.file;
    if (l.ok()) EXPECT_NE(l.version.find('.'), std::string::npos) << l.file << " " << l.version;
  }
}

// A libcudnn.so.9 of version 8.1 for CUDA 12 comes first in the search: `doctor`, in its own process, names
// both.
TEST(Requirements, ALibraryThatDoesNotFitIsNamed) {
  const Folder dir;
  const std::string source = dir / "old.c";
  std::ofstream(source) << "unsigned long cudnnGetVersion(void) { return 80100; }\n"
                           "unsigned long cudnnGetCudartVersion(void) { return 12000; }\n";
  const Ended made = Child({"cc", "-shared", "-fPIC", "-o", dir / "libcudnn.so.9", source}).wait();
  if (made.code != 0) GTEST_SKIP() << "no C compiler: " << made.text;
  const std::string folder = fs::path(source).parent_path().string();
  const char* const others = std::getenv("LD_LIBRARY_PATH");  // a bundle's
  const std::string path = others ? folder + ":" + others : folder;
  const Ended e = Child({"env", "LD_LIBRARY_PATH=" + path, command(), "doctor"}).wait();
  EXPECT_NE(e.text.find("and 9.7 is the least"), std::string::npos) << e.text;
}

TEST(Requirements, WhatTheUserSetStays) {
  ::setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  ::unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  prepare_environment(2);
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "LAZY");
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
  ::unsetenv("CUDA_MODULE_LOADING");
  prepare_environment(1);
  EXPECT_EQ(std::getenv("CUDA_MODULE_LOADING"), nullptr);
  prepare_environment(2);
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "EAGER");
}

}  // namespace
}  // namespace isobar::cuda
