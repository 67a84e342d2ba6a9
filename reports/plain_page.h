// A page of figures and tables without runs, for commands that only predict.
//
//   write_plain_page("out", "llama3-8b on 64 GPUs", figures, tables);
//   // OUT/index.html, OUT/figures/*.{vl.json,svg}, OUT/tables/*.csv
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "reports/figures/figures.h"
#include "reports/tables/tables.h"

namespace isobar {

/// `sentences` stand above the figures. Returns why figures were not drawn and how to fix it; "" if all were.
std::string write_plain_page(const std::filesystem::path& out, const std::string& title,
                             const std::vector<Figure>& figures, const std::vector<Table>& tables,
                             const std::vector<std::string>& sentences = {});

}  // namespace isobar
