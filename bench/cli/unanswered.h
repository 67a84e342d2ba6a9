// Of several questions of one command those without an answer are said beside the others, and end it at last:
// bad input comes before what does not fit.
//
//   Unanswered none(json);
//   try { … } catch (const ConfigError& e) { none.say(machine, gpus, e, out); }
//   none.end();
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "model/base/error.h"

namespace isobar {

class Unanswered {
 public:
  explicit Unanswered(bool as_json) : json_(as_json) {}
  /// On stderr and, where JSON is asked for, an entry of `out`.
  void say(const std::string& machine, int64_t gpus, const ConfigError& e, nlohmann::json& out);
  /// Throws ExitCode where anything was said.
  void end() const;

 private:
  bool json_;
  int code_ = 0;
};

}  // namespace isobar
