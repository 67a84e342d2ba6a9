// A search as a page: heat map over tp and pp, time against memory, scaling with
// bands; each also as SVG and CSV, and all rows in DIR/search.json.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "perfmodel/ask/choose/compare.h"

namespace isobar::report {

/// "llama3-70b": the title of its pages.
std::string name_of_file(const RunSpec& spec);

/// The best of each (dp, tp, cp, ep, pp) on the first number of accelerators, and scaling over the numbers;
/// for a single number, scaling around it; numbers without an answer go to `none`. Throws ConfigError where
/// no layout fits. Returns why figures were not drawn; "": all were.
std::string write_search_page(const std::filesystem::path& out, const perf::Chooser& chooser,
                              const RunSpec& spec, const perf::LayoutQuestion& q,
                              std::vector<perf::NoAnswer>& none);
std::string write_machines_page(const std::filesystem::path& out, const std::string& title,
                                const std::vector<perf::ComparedRow>& rows);

}  // namespace isobar::report
