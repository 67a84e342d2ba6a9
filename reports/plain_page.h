// A page of figures and tables that are of no runs: what a command predicts, beside its data.
//
//   write_plain_page("out", "llama3-8b on 64 GPUs", figures, tables);
//   // OUT/index.html, OUT/figures/*.{vl.json,svg}, OUT/tables/*.csv
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "reports/figures.h"
#include "reports/tables.h"

namespace isobar {

/// Why nothing was drawn, with the mend; "" where all was.
std::string write_plain_page(const std::filesystem::path& out, const std::string& title,
                             const std::vector<Figure>& figures, const std::vector<Table>& tables);

}  // namespace isobar
