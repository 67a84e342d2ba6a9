// isobar verify -o DIR: skill against lead time beside persistence and climatology, where and when the errors
// are, spectra; each also as SVG and CSV.
#pragma once
#include <filesystem>

#include "bench/cli/verification.h"
#include "reports/tables.h"

namespace isobar {

/// A row for each lead and target.
Table skill_table(const Verification& v);
/// A row for each lead, target and class between --thresholds; without any: no rows.
Table class_table(const Verification& v);
/// The dates with the least and the largest errors at the last lead, so many of each.
Table cases_table(const Verification& v, size_t of_each);
/// `say`: where the page is.
void write_verify_page(const std::filesystem::path& out, const Verification& v, bool say);

}  // namespace isobar
