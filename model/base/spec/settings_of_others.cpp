#include "model/base/spec/settings_of_others.h"

#include "model/base/error.h"

namespace isobar {
namespace {

bool packs(const RunSpec& s) {
  return s.net.words() && s.net.words()->attended_tokens > 0;
}

}  // namespace

bool has_settings_of_others(const RunSpec& s) {
  return is_block_scaled(s.policy.amp) || s.policy.offloaded_layers > 0 || packs(s);
}

void refuse_settings_of_others(const RunSpec& s) {
  const auto refuse = [&](bool given, const char* key, const char* mend) {
    if (given)
      throw ConfigError(s.file, key, "is priced of other engines alone",
                        std::string(mend) + ", or name an engine: isobar predict --engine");
  };
  refuse(is_block_scaled(s.policy.amp), "policy.amp", "use fp8 or bf16");
  refuse(s.policy.offloaded_layers > 0, "policy.offloaded_layers", "set it to 0");
  refuse(packs(s), "net.attended_tokens", "set it to 0");
}

RunSpec without_settings_of_others(RunSpec s) {
  if (is_block_scaled(s.policy.amp)) s.policy.amp = Amp::fp8;
  s.policy.offloaded_layers = 0;
  if (WordsSpec* words = s.net.words()) words->attended_tokens = 0;
  return s;
}

}  // namespace isobar
