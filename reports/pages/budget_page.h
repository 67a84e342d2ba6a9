// The page of `isobar budget`: the answer, days against money, one table, what would change the answer.
//
//   write_budget_page("out", "llama3-70b.yaml", sentences, schedule(…), question);
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "perfmodel/ask/choose/schedule.h"
#include "reports/story.h"
#include "reports/tables/tables.h"

namespace isobar::report {

/// `sentences`: the answer first; `more`: tables below. Returns why figures were not drawn and how to fix it;
/// "" if all were.
std::string write_budget_page(const std::filesystem::path& out, const std::string& title,
                              const std::vector<Sentence>& sentences, const std::vector<perf::Scheduled>& all,
                              const perf::LayoutQuestion& q, const std::vector<Table>& more = {});

}  // namespace isobar::report
