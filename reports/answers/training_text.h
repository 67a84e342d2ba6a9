// A whole training, and the numbers of accelerators that meet its limits, in text, tables and JSON.
//
//   text_of(training, machine)                    // "the whole training: 41 days (31 to 55), …"
//   answer_of(advised(all), question)             // "256 x dgx-b200: 20 days (16 to 34), $0.62 M; in time …"
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "perfmodel/ask/choose/schedule.h"
#include "reports/tables/tables.h"

namespace isobar::report {

std::string text_of(const perf::Training& t, const perf::Machine& m);
nlohmann::json json_of(const perf::Training& t);

/// "820000 (620000 to 1090000)" as "0.82 M (0.62 to 1.09)".
std::string with_interval_of_amount(const Known& k);
/// "$0.82 M", "0.82 M EUR"
std::string money(const Known& k, const std::string& currency);
/// The rows in 100 columns.
Table schedule_table(const std::vector<perf::Scheduled>& rows, const perf::LayoutQuestion& q);
/// The same with energy, layouts and all digits.
Table schedule_numbers(const std::vector<perf::Scheduled>& rows);
/// One sentence: how many of what, days, price, chances; one before it says where no row keeps the limits.
std::string answer_of(const perf::Scheduled& advised, const perf::LayoutQuestion& q);
/// Changes that would change that answer, in sentences of at most 20 words: another machine, another
/// deadline, what limits the step.
std::vector<std::string> changes_of(const std::vector<perf::Scheduled>& all, const perf::Scheduled& advised,
                                    const perf::LayoutQuestion& q, const perf::Limit& limit);
nlohmann::json json_of(const std::vector<perf::Scheduled>& all);

}  // namespace isobar::report
