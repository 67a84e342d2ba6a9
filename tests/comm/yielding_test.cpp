// Open MPI yields in calls that cannot be polled, and afterwards behaves as before.
#include "model/comm/yielding.h"

#include <gtest/gtest.h>

#include <string>

namespace isobar::comm {
namespace {

TEST(Yielding, LastsAsLongAsTheCall) {
  using Set = bool (*)(bool);  // returns the old value
  const auto set = reinterpret_cast<Set>(dlsym(RTLD_DEFAULT, "opal_progress_set_yield_when_idle"));
  if (set == nullptr) GTEST_SKIP() << "this MPI has no such switch";
  for (const bool before : {false, true}) {
    set(before);
    {
      const Yielding outer;
      { const Yielding inner; }
      EXPECT_TRUE(set(true));
    }
    EXPECT_EQ(set(false), before);
  }
}

TEST(Yielding, EndsWithTheBeginningUnlessAUserChose) {
  using Set = bool (*)(bool);
  const auto set = reinterpret_cast<Set>(dlsym(RTLD_DEFAULT, "opal_progress_set_yield_when_idle"));
  if (set == nullptr) GTEST_SKIP() << "this MPI has no such switch";
  constexpr const char* kVariable = "OMPI_MCA_mpi_yield_when_idle";
  const auto begun = [&] {  // as MPI_Init reads it
    Yielding::during_init([&] { set(std::getenv(kVariable) == std::string("1")); });
    return set(false);
  };
  ::setenv(kVariable, "1", 1);
  EXPECT_TRUE(begun());
  ::setenv(kVariable, "0", 1);
  EXPECT_FALSE(begun());
  ::unsetenv(kVariable);
  EXPECT_FALSE(begun());
  EXPECT_STREQ(std::getenv(kVariable), "1");  // the value that was read
  ::unsetenv(kVariable);
}

}  // namespace
}  // namespace isobar::comm
