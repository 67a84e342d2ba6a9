#include "model/base/nccl_resources.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "model/base/error.h"

namespace isobar {

int nccl_channels(const std::function<const char*(const char*)>& variable) {
  int channels = kNcclChannels;
  for (const char* name : {"NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS"}) {
    const char* const value = variable(name);
    if (!value) continue;
    const std::string_view text = value;
    int most = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), most);
    if (error != std::errc() || end != text.data() + text.size() || most < 1)
      throw ConfigError("environment", name, "'" + std::string(text) + "' is no number of channels",
                        "give a whole number from 1 on, or unset it");
    channels = std::min(channels, most);
  }
  return channels;
}

int sms_beside_nccl(int all, int channels) {
  return std::max(all - channels, (all + 1) / 2);
}

}  // namespace isobar
