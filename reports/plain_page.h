// A page of figures and tables without runs, for commands that only predict.
//
//   write_plain_page("out", {.title = "llama3-8b on 64 GPUs"}, figures, tables);
//   // OUT/index.html, OUT/figures/*.{vl.json,svg}, OUT/tables/*.csv
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "reports/page.h"

namespace isobar::report {

/// Returns why figures were not drawn and how to fix it; "" if all were.
std::string write_plain_page(const std::filesystem::path& out, const PageText& text,
                             const std::vector<Figure>& figures, const std::vector<Table>& tables);

}  // namespace isobar::report
