// isobar predict -o DIR: a search as a page: heat map over tp and pp, time against memory, scaling with
// bands; each also as SVG and CSV, and all rows in DIR/search.json.
#pragma once
#include <filesystem>
#include <vector>

#include "bench/cli/choice.h"
#include "bench/cli/compare.h"

namespace isobar {

/// The best of each (dp, tp, cp, pp) on the first number of accelerators, and scaling over the numbers; for a
/// single number, scaling around it. Prints the page's place; throws ConfigError where no layout fits.
void write_search_page(const std::filesystem::path& out, const Chooser& chooser, const RunSpec& spec,
                       const LayoutQuestion& q);
void write_machines_page(const std::filesystem::path& out, const std::string& title,
                         const std::vector<ComparedRow>& rows);

}  // namespace isobar
