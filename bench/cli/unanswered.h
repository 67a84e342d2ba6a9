// Of several questions of one command those without an answer are said beside the others, and end it at last:
// bad input comes before what does not fit.
//
//   Unanswered none(machine.name, json);
//   try { … } catch (const ConfigError& e) { none.say(gpus, e, out); }
//   none.end();
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "model/base/error.h"

namespace isobar {

class Unanswered {
 public:
  Unanswered(std::string machine, bool as_json) : machine_(std::move(machine)), json_(as_json) {}
  /// On stderr and, where JSON is asked for, an entry of `out`.
  void say(int64_t gpus, const ConfigError& e, nlohmann::json& out);
  /// Throws ExitCode where anything was said.
  void end() const;

 private:
  std::string machine_;
  bool json_;
  int code_ = 0;
};

}  // namespace isobar
