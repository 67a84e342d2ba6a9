// Statistics that were computed once, for the next run and the next `isobar data stats` of the same: a small
// JSON file in cache_directory.h's, whose name is a hash of the files (kept.h; those of a static file too),
// of what is chosen of them and of what is computed. It has a digest of itself.
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

#include "model/data/field_choice.h"

namespace isobar {

class KeptStatistics {
 public:
  /// `of`: what else they depend on. Throws ConfigError where there are no such files.
  KeptStatistics(const std::string& path, const std::string& key, const FieldChoice& choice,
                 const nlohmann::json& of);
  /// None, too, where what is kept is damaged, which is said. `lists`: of words, that it has beside "mean"
  /// and "std".
  std::optional<nlohmann::json> find(const std::vector<std::string>& lists = {}) const;
  void keep(const nlohmann::json& statistics) const;
  const std::string& file() const { return file_; }  // "": nothing can be kept

 private:
  std::function<nlohmann::json()> what_;  // as it is now
  std::string file_;
  mutable bool settled_ = true;  // none of the files had just changed
};

}  // namespace isobar
