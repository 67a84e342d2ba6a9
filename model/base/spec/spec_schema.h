// JSON schema of run configurations, from the rows of their keys: editors complete, explain and check by it.
//
//   std::puts(run_schema().dump(1).c_str());      // isobar config schema run
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "model/base/spec/spec_keys.h"

namespace isobar {

nlohmann::json run_schema();

/// An object with these properties and no others.
nlohmann::json object_schema(nlohmann::json properties);
/// The frame of a schema file.
nlohmann::json schema_file(const std::string& title, nlohmann::json schema);

}  // namespace isobar
