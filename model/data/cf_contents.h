// What an archive holds beside the fields that are read, and why it has none, in words.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "model/data/cf_grid.h"

namespace isobar {

bool is_field(const CfVariable& v, const CfPlaces& at);

/// Of an archive without a field on time, latitude and longitude. `at`: its path.
ArrayError why_no_field(const CfFile& file, const std::string& at);

/// One line each: variables that are neither fields nor coordinates, and groups.
std::vector<std::string> left_out(const CfFile& file);

}  // namespace isobar
