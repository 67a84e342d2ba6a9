// Ids of trials read from files: they become folder names, and files may contain any text.
#pragma once
#include <string>

namespace isobar::records {

/// Throws ConfigError unless `id`, read from `file`, is a valid folder name.
void require_trial_id(const std::string& id, const std::string& file);

}  // namespace isobar::records
