// How long CPUs have worked: by lines of /proc/stat with known numbers, and of this machine.

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "model/base/system/cpus.h"
#include "model/base/system/temporary.h"

namespace isobar {
namespace {

TEST(CpuLoad, CountsWorkAndStealOfTheseCpus) {
  const std::string hz = std::to_string(::sysconf(_SC_CLK_TCK));
  const TemporaryFile file("stat", "",
                           "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 " + hz + " " + hz + " 0 900 800 " + hz + " 0 " +
                               hz + "0 " + hz + " 0\ncpu10 " + hz + " 0 0 5 5 0 0 0 0 0\nintr 1 2 3\n");
  const std::filesystem::path& stat = file.path();
  EXPECT_DOUBLE_EQ(busy_seconds({0}, stat).value(), 13) << "idle and iowait are none; guests are users";
  EXPECT_DOUBLE_EQ(busy_seconds({0, 10}, stat).value(), 14);
  EXPECT_FALSE(busy_seconds({0, 1}, stat)) << "cpu10 is not cpu1";
  EXPECT_FALSE(busy_seconds({}, stat));
  EXPECT_FALSE(busy_seconds({0}, stat / "none"));
}

TEST(CpuLoad, WorkOfThisProcessIsInBoth) {
  const auto before = busy_seconds(process_cpus());
  ASSERT_TRUE(before);
  const double own = own_cpu_seconds();
  for (volatile int spin = 0; own_cpu_seconds() < own + 0.3; ++spin) {
  }
  EXPECT_GT(busy_seconds(process_cpus()).value() - *before, 0.2);
}

}  // namespace
}  // namespace isobar
