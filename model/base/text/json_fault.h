// The place where a text stops being JSON, for errors that name it.
//
//   throw ConfigError(file, "", json_fault(text), "write it again");   // "is no JSON at byte 412: after …"
#pragma once
#include <string>
#include <string_view>

namespace isobar {

/// "is no JSON at byte 412, where `device": "cpu"` stands behind `"name": "{"`"; "" where the text is JSON.
std::string json_fault(std::string_view text);

}  // namespace isobar
