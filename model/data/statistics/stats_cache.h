// A cache of computed statistics for later runs and `isobar data stats`: a JSON file with its own digest in
// cache_directory(), named by a hash of the identities of the files (kept.h; static files too), the selection
// and the kind of statistics.
//
//   const KeptStatistics kept("era5.zarr", "data.train", choice, {{"dt", 6}});
//   if (const auto j = kept.find()) return *j;
//   kept.keep(j);
//
// Nothing is kept of files that have changed within the last seconds, or meanwhile: they may change again,
// and clocks of filesystems are too coarse to tell. Where there is no directory to keep them in, they are
// computed each time.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/data/fields/field_choice.h"

namespace isobar::data {

class KeptStatistics {
 public:
  /// `of`: other inputs of the computation, part of the key. Throws ConfigError when there are no such files.
  KeptStatistics(const std::string& path, const std::string& key, const FieldChoice& choice,
                 const nlohmann::json& of);
  /// The cached statistics; none when absent or damaged, the latter with a line on stderr. `lists`: names of
  /// lists of strings that the entry must have besides "mean" and "std".
  std::optional<nlohmann::json> find(const std::vector<std::string>& lists = {}) const;
  void keep(const nlohmann::json& statistics) const;
  const std::string& file() const { return file_; }  // "": no cache directory

 private:
  std::function<nlohmann::json()> what_;  // the current key
  std::string file_;
  mutable bool settled_ = true;  // no file had just changed
};

}  // namespace isobar::data
