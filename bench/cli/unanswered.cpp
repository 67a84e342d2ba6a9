#include "bench/cli/unanswered.h"

#include <cstdio>

#include "bench/cli/commands.h"
#include "perfmodel/search.h"

namespace isobar {

void Unanswered::say(const std::string& machine, int64_t gpus, const ConfigError& e, nlohmann::json& out) {
  constexpr int kBadInput = 2, kTooLarge = 4;
  const bool large = dynamic_cast<const DoesNotFit*>(&e) != nullptr;
  code_ = code_ == kBadInput || !large ? kBadInput : kTooLarge;
  if (json_)
    out.push_back({{"gpus", gpus}, {"machine", machine}, {large ? "does_not_fit" : "refused", e.what()}});
  std::fprintf(stderr, "isobar: %s\n", e.what());
}

void Unanswered::end() const {
  if (code_ != 0) throw ExitCode{code_};
}

}  // namespace isobar
