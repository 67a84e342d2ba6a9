// Tables that were gathered once, in files that all ranks of a host map: a rank has no copy of its own, and
// the data are not read again by the next rank, for validation, nor by the next run.
//
// They lie in $ISOBAR_CACHE_DIR, else in isobar/ of $XDG_CACHE_HOME or ~/.cache, one file for each choice of
// files (kept.h), columns and rows; tables.jsonl there has a line for each that was made. Each file has a
// digest of itself, compared when it is opened; what is damaged is gathered again, and stderr says so. What
// is no longer wanted may be deleted at any time. Above $ISOBAR_CACHE_GB [32] the tables that were used
// longest ago go when another is made, but for those that a process has mapped; stderr says so.
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

#include "model/data/table.h"

namespace isobar {

struct DamagedTable : std::runtime_error {
  using runtime_error::runtime_error;
};

class MappedTable {
 public:
  /// Throws std::system_error, and DamagedTable for what is no table of `columns` as it was written (0: of
  /// however many).
  explicit MappedTable(const std::string& file, int64_t columns = 0);
  ~MappedTable();
  MappedTable(const MappedTable&) = delete;
  MappedTable& operator=(const MappedTable&) = delete;
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  const LeftOut& left_out() const { return left_out_; }
  const float* row(int64_t i) const { return values_ + i * columns_; }
  bool removed() const;                              // from the cache, while this process opened it
  const std::string& file() const { return path_; }  // in the cache

 private:
  std::string path_;
  int file_ = -1;  // locked (shared): nobody removes it
  void* map_ = nullptr;
  size_t bytes_ = 0;
  int64_t rows_ = 0, columns_ = 0;
  LeftOut left_out_;
  const float* values_ = nullptr;
};

/// Of what read_table says, gathered by the one process that comes first while the others wait. Throws
/// ConfigError as that does, and where the directory cannot be written to.
std::shared_ptr<const MappedTable> mapped_table(const std::string& path, const std::string& key,
                                                const std::vector<std::string>& columns,
                                                const RowChoice& choice = {},
                                                const std::function<void()>& alive = {});

/// What `make` tells of this table (numbers: JSON), which is kept beside it under `name` and goes with it:
/// told by the one process that comes first while the others wait. Where nothing can be kept it is made and
/// returned.
nlohmann::json kept_with(const MappedTable& table, const std::string& name,
                         const std::function<nlohmann::json()>& make);

/// The same as mapped_table in a child (model/base/child.h), which a damaged file may end; the cache is kept.
/// Throws ConfigError.
void require_table(const std::string& path, const std::string& key, const std::vector<std::string>& columns,
                   const RowChoice& choice = {});

}  // namespace isobar
