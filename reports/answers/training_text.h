// A whole training, and the numbers of accelerators that meet its limits, in text, tables and JSON.
//
//   text_of(training, machine)                    // "the whole training: 41 days (31 to 55), …"
//   to_text(schedule_table(all, question)), verdict(all, question)
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "perfmodel/ask/choose/schedule.h"
#include "reports/tables/tables.h"

namespace isobar {

std::string text_of(const Training& t, const Machine& m);
nlohmann::json json_of(const Training& t);

Table schedule_table(const std::vector<Scheduled>& all, const LayoutQuestion& q);
/// "fewest GPUs that are in time more likely than not: 512 …"
std::string verdict(const std::vector<Scheduled>& all, const LayoutQuestion& q);
nlohmann::json json_of(const std::vector<Scheduled>& all);

}  // namespace isobar
