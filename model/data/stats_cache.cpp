#include "model/data/stats_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "model/base/error.h"
#include "model/base/files.h"
#include "model/base/hash.h"
#include "model/base/json.h"
#include "model/data/cache_directory.h"
#include "model/data/field_file.h"

namespace isobar {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kStatisticsVersion = 1;  // of the rules by which they are computed
constexpr int64_t kSettled = 3;        // s since the last change

/// A file, or all files of a Zarr directory. `newest`: becomes the last change of any, in seconds since 1970.
void add_file(const fs::path& path, json& files, int64_t& newest) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) return;  // told where it is read
  files.push_back({fs::absolute(path).string(), s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec});
  newest = std::max<int64_t>(newest, s.st_mtim.tv_sec);
  if (!S_ISDIR(s.st_mode)) return;
  std::vector<fs::path> inside;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error)) inside.push_back(entry.path());
  std::sort(inside.begin(), inside.end());
  for (const fs::path& p : inside) add_file(p, files, newest);
}

}  // namespace

KeptStatistics::KeptStatistics(const std::string& path, const std::string& key, const FieldChoice& c,
                               const json& of) {
  json what = {{"version", kStatisticsVersion},
               {"of", of},
               {"variables", c.variables},
               {"region", c.region},
               {"stride", c.stride},
               {"dates", c.dates},
               {"time_step", c.time_step},
               {"static_fields", c.static_fields},
               {"forcings", c.forcings},
               {"mask", c.mask},
               {"files", json::array()}};
  int64_t newest = 0;
  for (const fs::path& p : field_paths(path, key)) add_file(p, what["files"], newest);
  if (!c.static_file.empty())
    for (const fs::path& p : field_paths(c.static_file, "data.static_file"))
      add_file(p, what["files"], newest);
  settled_ = newest + kSettled < static_cast<int64_t>(std::time(nullptr));
  try {
    file_ = cache_directory() / (sha256_hex(json_text(what)).substr(0, 32) + ".statistics.json");
  } catch (const ConfigError&) {  // no HOME: computed each time
  }
}

std::optional<json> KeptStatistics::find() const {
  if (file_.empty() || !settled_) return std::nullopt;
  std::ifstream in(file_);
  json j = json::parse(in, nullptr, false);
  if (j.is_discarded() || !j.is_object() || !j.contains("mean") || !j.contains("std")) return std::nullopt;
  return j;
}

void KeptStatistics::keep(const json& statistics) const {
  if (file_.empty() || !settled_) return;
  try {
    fs::create_directories(fs::path(file_).parent_path());
    write_atomically(file_, statistics.dump());
  } catch (const std::exception&) {
    // A full disk, or another's directory: they are computed again next time, which is no error of this run.
  }
}

}  // namespace isobar
