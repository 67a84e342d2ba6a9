#include "model/records/trial_id.h"

#include "model/base/error.h"

namespace isobar::records {

void require_trial_id(const std::string& id, const std::string& file) {
  constexpr size_t kLongest = 200;
  if (id.empty() || id.size() > kLongest || id.starts_with('.') || id.find('/') != std::string::npos ||
      id.find('\0') != std::string::npos)
    throw ConfigError(file, "id", "'" + id.substr(0, 40) + "' is no name of a trial",
                      "submit the sweep again");
}

}  // namespace isobar::records
