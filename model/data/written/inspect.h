// A description of a data set as JSON or text: format, dimensions, channels, time range, layout, samples.
//
//   nlohmann::json j = inspect("era5.nc");
//   std::cout << inspect_text(j);
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/data/fields/field_choice.h"

namespace isobar::data {

/// Reads the files in a child process (model/data/files/foreign.h). Throws ConfigError.
nlohmann::json inspect(const std::string& path, const FieldChoice& choice = {}, int64_t dt = 1);
std::string inspect_text(const nlohmann::json& j);

}  // namespace isobar::data
