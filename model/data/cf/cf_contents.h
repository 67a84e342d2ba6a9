// Messages about an archive's contents: the variables that are not read as fields, and why there are no
// fields.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "model/data/cf/cf_grid.h"

namespace isobar::data {

bool is_field(const CfFile& file, const CfVariable& v, const CfPlaces& at);

/// Variables that others name in their attributes as coordinates, quality flags, bounds or grid mappings
std::set<std::string> named_by_others(const CfFile& file);

/// The error for an archive without a field on time, latitude and longitude. `at`: its path.
ArrayError why_no_field(const CfFile& file, const std::string& at);

/// One line for each variable that is neither field nor coordinate, and for each group.
std::vector<std::string> left_out(const CfFile& file);

}  // namespace isobar::data
