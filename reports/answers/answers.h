// Answers of the predictor (perfmodel/ask/choose) in text, tables and JSON.
//
//   std::string s = prediction_text(p, spec, machine);   // terms, throughput, memory, checkpoints, notes
//   std::fputs(text_of(answer, machine, 64, question).c_str(), stdout);
//   to_csv(compared_numbers(rows)); to_json(compared_numbers(rows));
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "perfmodel/ask/choose/answers.h"
#include "perfmodel/ask/choose/compare.h"
#include "reports/tables/tables.h"

namespace isobar::report {

// ---- a predicted step, on cores and on accelerators ----

/// Seconds, or milliseconds for short steps: unit of a step's columns.
struct TimeUnit {
  double per_second;
  const char* name;
};
TimeUnit unit_of(double step_s);

std::string prediction_text(const perf::Prediction& p, const RunSpec& spec, const perf::Machine& machine);
nlohmann::json json_of(const perf::Prediction& p, const RunSpec& spec, const perf::Machine& machine);

// ---- one run ----

/// Whose step it is.
std::string engine_text(const perf::Machine& m);
/// One line: the number of layouts of which the fastest is one, and the runs that would tell.
std::string ties_text(const perf::Ties& t, const std::vector<std::string>& telling);

nlohmann::json json_of(const perf::Layout& l);
nlohmann::json json_of(const perf::Limit& l);

/// `rates`: also each price and its source.
std::string text_of(const perf::RunAnswer& a, const perf::Machine& machine, bool rates);
nlohmann::json json_of(const perf::RunAnswer& a, const perf::Machine& machine, bool rates);

// ---- a search ----

std::string text_of(const perf::SearchAnswer& a, const perf::Machine& machine, int64_t gpus,
                    const perf::LayoutQuestion& q);
nlohmann::json json_of(const perf::SearchAnswer& a, const perf::Machine& machine, int64_t gpus,
                       const perf::LayoutQuestion& q);

/// Answers for several numbers of accelerators: how the best step scales.
std::string scaling_text(const std::vector<perf::SearchAnswer>& answers);

std::string proposal_text(const perf::Facility& f, const perf::Scheduled& s);
/// Strong scaling over the rows of one machine, fewest nodes first.
Table scaling_table(const perf::Facility& f, const std::vector<perf::Scheduled>& rows);

// ---- other engines ----

/// `chosen`: the micro-batch was not given.
std::string text_of(const perf::EngineRunAnswer& a, const perf::EngineOn& engine,
                    const perf::Machine& machine, bool chosen);
nlohmann::json json_of(const perf::EngineRunAnswer& a, const perf::EngineOn& engine,
                       const perf::Machine& machine);

std::string text_of(const perf::EngineSearchAnswer& a, const perf::EngineOn& engine,
                    const perf::Machine& machine, int64_t gpus, const perf::LayoutQuestion& q);
nlohmann::json json_of(const perf::EngineSearchAnswer& a, const perf::EngineOn& engine,
                       const perf::Machine& machine, int64_t gpus, const perf::LayoutQuestion& q);

// ---- a whole training, and the numbers of accelerators that meet its limits ----

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

// ---- machines or what-ifs side by side ----

/// For people, in 100 columns.
Table compared(const std::vector<perf::ComparedRow>& rows);
/// Each row's layout, and what limits it, a line each.
std::string layouts_text(const std::vector<perf::ComparedRow>& rows);
/// For programs: ends of intervals in separate columns, all digits.
Table compared_numbers(const std::vector<perf::ComparedRow>& rows);

}  // namespace isobar::report
