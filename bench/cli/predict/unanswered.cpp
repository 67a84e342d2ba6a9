#include "bench/cli/predict/unanswered.h"

#include <cstdio>

#include "bench/cli/commands.h"

namespace isobar::cli {

void Unanswered::say(const perf::NoAnswer& none, nlohmann::json& out) {
  constexpr int kBadInput = 2, kTooLarge = 4;
  code_ = code_ == kBadInput || !none.does_not_fit ? kBadInput : kTooLarge;
  if (json_)
    out.push_back({{"gpus", none.gpus},
                   {"machine", none.machine},
                   {none.does_not_fit ? "does_not_fit" : "refused", none.why}});
  std::fprintf(stderr, "isobar: %s\n", none.why.c_str());
}

void Unanswered::end() const {
  if (code_ != 0) throw ExitCode{code_};
}

}  // namespace isobar::cli
