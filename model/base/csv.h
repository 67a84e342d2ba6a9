// Cells of the CSV files that Isobar writes (RFC 4180).
#pragma once
#include <string>

namespace isobar {

/// A text as a cell: quoted where it must be, and harmless in a spreadsheet, which would run what begins with
/// = + - @, a tab or a carriage return as a formula: such text gets an apostrophe in front. Numbers stay
/// numbers.
std::string csv_cell(const std::string& text);

}  // namespace isobar
