// Answers about one run in text and JSON (perfmodel/ask/choose/answers.h).
//
//   std::fputs(text_of(answer, machine, question, rates).c_str(), stdout);
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "perfmodel/ask/choose/answers.h"

namespace isobar::report {

/// Whose step it is.
std::string engine_text(const perf::Machine& m);
/// One line: the number of layouts of which the fastest is one, and the runs that would tell.
std::string ties_text(const perf::Ties& t, const std::vector<std::string>& telling);

nlohmann::json json_of(const perf::Layout& l);
nlohmann::json json_of(const perf::Limit& l);

/// `rates`: also each price and its source.
std::string text_of(const perf::RunAnswer& a, const perf::Machine& machine, bool rates);
nlohmann::json json_of(const perf::RunAnswer& a, const perf::Machine& machine, bool rates);

}  // namespace isobar::report
