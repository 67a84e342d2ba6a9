// Tests for every host, with a GPU or without.
#include "model/backend/cuda/runtime/device.h"

#include <gtest/gtest.h>

#include "model/backend/cuda/runtime/library.h"
#include "model/base/error.h"
#include "model/engine/processor.h"

namespace isobar::cuda {
namespace {

TEST(Device, SaysWhyThereIsNone) {
  const Devices found = find_devices();
  EXPECT_GE(found.runtime, 12000);
  EXPECT_EQ(found.all.empty(), !found.why_none.empty());
}

TEST(Device, AskingForOneWhereThereIsNoneNamesTheKeyAndTheMend) {
  if (!find_devices().all.empty()) GTEST_SKIP() << "there is a GPU here";
  try {
    use_device("run.yaml", 0);
    FAIL() << "there is no GPU, and one was given";
  } catch (const ConfigError& e) {
    const std::string said = e.what();
    EXPECT_NE(said.find("run.yaml: 'run.device'"), std::string::npos) << said;
    EXPECT_NE(said.find("set run.device: cpu"), std::string::npos) << said;
  }
}

TEST(Device, RunDeviceChooses) {
  RunSpec spec;
  spec.file = "run.yaml";
  EXPECT_FALSE(engine::choose_device(spec, 0).gpu) << "cpu unless asked";
  const bool any = !find_devices().all.empty();
  spec.run.device = RunDevice::automatic;
  EXPECT_EQ(engine::choose_device(spec, 0).gpu, any);
  spec.run.device = RunDevice::cuda;
  if (any)
    EXPECT_TRUE(engine::choose_device(spec, 0).gpu);
  else
    EXPECT_THROW(engine::choose_device(spec, 0), ConfigError);
}

TEST(Device, AFailedCallSaysWhichAndWhere) {
  try {
    check(cudaErrorInvalidValue, "cudaMalloc(&p, -1)", "here.cpp", 7);
    FAIL() << "an error passed";
  } catch (const Failure& e) {
    const std::string said = e.what();
    for (const char* part : {"here.cpp:7", "cudaMalloc(&p, -1)", "cudaErrorInvalidValue"})
      EXPECT_NE(said.find(part), std::string::npos) << said;
  }
}

TEST(Library, OneThatIsNotInstalledIsNamed) {
  try {
    const Library lib("libisobar_no_such_library.so.1");
    FAIL() << "it was found";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("libisobar_no_such_library.so.1"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace isobar::cuda
