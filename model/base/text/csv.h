// Cells of the CSV files that Isobar writes (RFC 4180).
#pragma once
#include <string>

namespace isobar {

/// A text as a cell, quoted where it must be. A spreadsheet would run a text that begins with = + - @, a tab
/// or a carriage return as a formula: such text gets an apostrophe in front, numbers do not.
std::string csv_cell(const std::string& text);

}  // namespace isobar
