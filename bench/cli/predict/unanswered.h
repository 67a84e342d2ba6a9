// Questions of one command without an answer: reported beside the answers, they decide the exit code at the
// end. Bad input outranks a misfit.
//
//   Unanswered none(json);
//   try { … } catch (const ConfigError& e) { none.say(no_answer(machine, gpus, e), out); }
//   none.end();
#pragma once
#include <nlohmann/json.hpp>

#include "perfmodel/ask/choose/question.h"

namespace isobar::cli {

class Unanswered {
 public:
  explicit Unanswered(bool as_json) : json_(as_json) {}
  /// Reports on stderr and, with JSON, as an entry of `out`.
  void say(const perf::NoAnswer& none, nlohmann::json& out);
  /// Throws ExitCode where anything was reported.
  void end() const;

 private:
  bool json_;
  int code_ = 0;
};

}  // namespace isobar::cli
