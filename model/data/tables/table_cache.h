// A cache of gathered tables in files that all ranks of a host map: ranks share one copy, and neither other
// ranks, validation nor the next run read the data again.
//
// cache_directory() has one file for each combination of files (kept.h), columns and rows, and a line for
// each in tables.jsonl; files may be deleted at any time. Each contains its own digest, which is checked on
// opening: a damaged table is gathered again, with a line on stderr. When a new table exceeds
// $ISOBAR_CACHE_GB [32], the least recently used tables that no process has mapped are removed, also with a
// line.
//
//   const auto table = mapped_table("ocean.nc,atmosphere.nc", "data.train", {"sst", "tair"}, choice);
//   table->row(0)[1]                                         // tair
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/data/tables/table.h"

namespace isobar::data {

class MappedTable {
 public:
  /// Throws std::system_error, and DamagedTable unless the file is an intact table of `columns` (0: any
  /// number).
  explicit MappedTable(const std::string& file, int64_t columns = 0);
  ~MappedTable();
  MappedTable(const MappedTable&) = delete;
  MappedTable& operator=(const MappedTable&) = delete;
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  const LeftOut& left_out() const { return left_out_; }
  const float* row(int64_t i) const { return values_ + i * columns_; }
  int64_t place(int64_t i) const { return places_[i]; }  // of row i in the input (SampleTable)
  bool removed() const;                                  // deleted from the cache while being opened
  const std::string& file() const { return path_; }      // its path in the cache

 private:
  std::string path_;
  int file_ = -1;  // a shared lock prevents its removal
  void* map_ = nullptr;
  size_t bytes_ = 0;
  int64_t rows_ = 0, columns_ = 0;
  LeftOut left_out_;
  const int64_t* places_ = nullptr;
  const float* values_ = nullptr;
};

/// The result of read_table, gathered by the first process while the others wait. Throws ConfigError like
/// read_table, and when the directory is not writable.
std::shared_ptr<const MappedTable> mapped_table(const std::string& path, const std::string& key,
                                                const std::vector<std::string>& columns,
                                                const RowChoice& choice = {},
                                                const std::function<void()>& alive = {});

/// The result of `make` for this table, cached beside it under `name` and removed with it; the first process
/// computes it while the others wait. Without write permission or space it is computed each time.
nlohmann::json kept_with(const MappedTable& table, const std::string& name,
                         const std::function<nlohmann::json()>& make);

/// Fills the cache by mapped_table in a child process (model/base/system/child.h), since a damaged file may
/// crash the libraries. Throws ConfigError.
void require_table(const std::string& path, const std::string& key, const std::vector<std::string>& columns,
                   const RowChoice& choice = {});

}  // namespace isobar::data
