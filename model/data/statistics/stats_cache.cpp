#include "model/data/statistics/stats_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "model/base/error.h"
#include "model/base/text/hash.h"
#include "model/base/text/json.h"
#include "model/data/choice/kept.h"
#include "model/data/fields/field_file.h"
#include "model/data/statistics/cache_directory.h"

namespace isobar::data {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kStatisticsVersion = 2;  // of the computation and of the file format
constexpr int64_t kSettled = 3;        // s since the last change

struct Looked {
  json files = json::array();
  bool settled = true;
};

/// Adds a file, or all files of a Zarr directory.
void add_file(const fs::path& path, Looked& all) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) return;  // reading it reports the error
  all.files.push_back(identity_of(path, s));
  all.settled = all.settled && settled(s) && s.st_mtim.tv_sec + kSettled < std::time(nullptr);
  if (!S_ISDIR(s.st_mode)) return;
  std::vector<fs::path> inside;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error)) inside.push_back(entry.path());
  std::sort(inside.begin(), inside.end());
  for (const fs::path& p : inside) add_file(p, all);
}

std::string name_of(const json& what) {
  return sha256_hex(json_text(what)).substr(0, 32) + ".statistics.json";
}

bool are_numbers(const json& j) {
  return j.is_array() && std::all_of(j.begin(), j.end(), [](const json& x) { return x.is_number(); });
}

bool are_words(const json& j) {
  return j.is_array() && std::all_of(j.begin(), j.end(), [](const json& x) { return x.is_string(); });
}

bool are_statistics(const json& j, const std::vector<std::string>& lists) {
  return j.is_object() && j.contains("mean") && j.contains("std") && are_numbers(j["mean"]) &&
         are_numbers(j["std"]) && j["mean"].size() == j["std"].size() &&
         std::all_of(lists.begin(), lists.end(),
                     [&](const std::string& key) { return j.contains(key) && are_words(j[key]); });
}

}  // namespace

KeptStatistics::KeptStatistics(const std::string& path, const std::string& key, const FieldChoice& c,
                               const json& of)
    : what_([=, this] {
        json what = {{"version", kStatisticsVersion},
                     {"of", of},
                     {"variables", c.variables},
                     {"region", c.region},
                     {"stride", c.stride},
                     {"dates", c.dates},
                     {"time_step", c.time_step},
                     {"static_fields", c.static_fields},
                     {"forcings", c.forcings},
                     {"mask", c.mask}};
        Looked all;
        for (const fs::path& p : field_paths(path, key)) add_file(p, all);
        if (!c.static_file.empty())
          for (const fs::path& p : field_paths(c.static_file, "data.static_file")) add_file(p, all);
        settled_ = all.settled;
        what["files"] = std::move(all.files);
        return what;
      }) {
  const json what = what_();
  try {
    file_ = cache_directory() / name_of(what);
  } catch (const ConfigError&) {  // no cache directory: computed each time
  }
}

std::optional<json> KeptStatistics::find(const std::vector<std::string>& lists) const {
  if (file_.empty() || !settled_) return std::nullopt;
  auto j = read_kept(file_, "computed");
  if (!j || are_statistics(*j, lists)) return j;
  say_made_again(file_, "it holds no statistics", "computed");
  return std::nullopt;
}

void KeptStatistics::keep(const json& statistics) const {
  if (file_.empty() || !settled_) return;
  try {
    if (name_of(what_()) != fs::path(file_).filename()) return;  // the files changed while being read
    fs::create_directories(fs::path(file_).parent_path());
    write_kept(file_, statistics);
  } catch (const std::exception&) {
    // Full disk or no write permission: not an error, the next run computes them again.
  }
}

}  // namespace isobar::data
