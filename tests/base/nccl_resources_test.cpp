// NCCL's share of a GPU, against figures worked out by hand.
#include "model/base/nccl_resources.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "model/base/error.h"

namespace isobar {
namespace {

int channels_with(const std::map<std::string, std::string>& environment) {
  return nccl_channels([&](const char* name) {
    const auto at = environment.find(name);
    return at == environment.end() ? nullptr : at->second.c_str();
  });
}

TEST(NcclResources, TheSmallestBoundOfTheEnvironmentIsTaken) {
  EXPECT_EQ(channels_with({}), 24);
  EXPECT_EQ(channels_with({{"NCCL_MAX_CTAS", "16"}}), 16);
  EXPECT_EQ(channels_with({{"NCCL_MAX_NCHANNELS", "4"}, {"NCCL_MAX_CTAS", "16"}}), 4);
  EXPECT_EQ(channels_with({{"NCCL_MAX_NCHANNELS", "64"}}), 24) << "a bound makes no channels";
}

TEST(NcclResources, ABoundThatIsNoneIsRefusedByName) {
  for (const char* value : {"", "0", "-3", "8x", " 8", "1e9", "99999999999999999999"})
    for (const char* name : {"NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS"}) try {
        channels_with({{name, value}});
        ADD_FAILURE() << name << "='" << value << "' passed";
      } catch (const ConfigError& e) {
        EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
      }
}

TEST(NcclResources, ProductsKeepHalfOfASmallGpu) {
  EXPECT_EQ(sms_beside_nccl(132, 24), 108);
  EXPECT_EQ(sms_beside_nccl(108, 16), 92);
  EXPECT_EQ(sms_beside_nccl(30, 24), 15);
  EXPECT_EQ(sms_beside_nccl(1, 24), 1);
}

TEST(NcclResources, BuffersOfAChannel) {
  EXPECT_EQ(kNcclChannelBytes, 4194304 + 524288 + 4915200);
  EXPECT_EQ(nccl_buffer_bytes(2), 462422016);
  EXPECT_EQ(nccl_buffer_bytes(3, 1), 28901376);
  EXPECT_EQ(nccl_buffer_bytes(0), 0);
}

}  // namespace
}  // namespace isobar
