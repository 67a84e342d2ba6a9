#include "model/data/table_dataset.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/base/error.h"
#include "model/data/row_choice.h"
#include "model/data/table_cache.h"

namespace isobar {
namespace {

std::vector<std::string> columns_of(const DataSpec& data) {
  if (data.inputs.empty() || data.targets.empty())
    throw ConfigError("configuration", data.inputs.empty() ? "data.inputs" : "data.targets",
                      "a table does not say which columns are which", "name the columns");
  std::vector<std::string> names = data.inputs;
  names.insert(names.end(), data.targets.begin(), data.targets.end());
  return names;
}

class TableDataset : public Dataset {
 public:
  TableDataset(std::shared_ptr<const MappedTable> table, int64_t first, int64_t rows, Statistics statistics,
               ChannelNames names, const SampleShape& shape)
      : table_(std::move(table)),
        first_(first),
        rows_(rows),
        statistics_(std::move(statistics)),
        names_(std::move(names)),
        shape_(shape) {}
  int64_t size() const override { return rows_; }
  SampleShape shape() const override { return shape_; }
  ChannelNames channels() const override { return names_; }
  LeftOut left_out() const override { return table_->left_out(); }
  Statistics input_statistics() const override {
    if (statistics_.mean.empty()) return {};
    const auto inputs = static_cast<std::ptrdiff_t>(names_.inputs.size());
    return {{statistics_.mean.begin(), statistics_.mean.begin() + inputs},
            {statistics_.std.begin(), statistics_.std.begin() + inputs}};
  }
  Statistics target_statistics() const override {
    if (statistics_.mean.empty()) return {};
    const auto inputs = static_cast<std::ptrdiff_t>(names_.inputs.size());
    return {{statistics_.mean.begin() + inputs, statistics_.mean.end()},
            {statistics_.std.begin() + inputs, statistics_.std.end()}};
  }
  void read(int64_t i, float* input, float* target) const override {
    const auto inputs = static_cast<int64_t>(names_.inputs.size()),
               columns = inputs + static_cast<int64_t>(names_.targets.size());
    const float* row = table_->row(first_ + i);
    const bool physical = statistics_.mean.empty();
    for (int64_t c = 0; c < columns; ++c)
      (c < inputs ? input[c] : target[c - inputs]) =
          physical ? row[c] : (row[c] - statistics_.mean[c]) / statistics_.std[c];
  }

 private:
  std::shared_ptr<const MappedTable> table_;
  int64_t first_, rows_;
  Statistics statistics_;
  ChannelNames names_;
  SampleShape shape_;
};

// Of rows [0, rows), in two passes
Statistics statistics_of_rows(const MappedTable& t, int64_t rows, const std::vector<std::string>& names,
                              const std::string& path) {
  const auto columns = static_cast<int64_t>(names.size());
  Statistics s;
  for (int64_t c = 0; c < columns; ++c) {
    double mean = 0, squares = 0;
    for (int64_t r = 0; r < rows; ++r) mean += static_cast<double>(t.row(r)[c]);
    mean /= static_cast<double>(rows);
    for (int64_t r = 0; r < rows; ++r) {
      const double d = static_cast<double>(t.row(r)[c]) - mean;
      squares += d * d;
    }
    const double std = std::sqrt(squares / static_cast<double>(rows));
    if (!(std > 1e-7 * std::abs(mean)) || static_cast<float>(std) < std::numeric_limits<float>::min())
      throw ConfigError(path, "data.train",
                        "column '" + names[c] + "' is constant, so it cannot be normalised",
                        "leave it out of data.inputs and data.targets");
    s.mean.push_back(static_cast<float>(mean));
    s.std.push_back(static_cast<float>(std));
  }
  return s;
}

// In physical units
std::unique_ptr<Dataset> whole_table(std::shared_ptr<const MappedTable> table, const DataSpec& data,
                                     const SampleShape& want) {
  const int64_t limit = data.limit_valid_samples, all = table->rows();
  const int64_t rows = limit > 0 ? std::min(limit, all) : all;
  return std::make_unique<TableDataset>(std::move(table), 0, rows, Statistics(),
                                        ChannelNames{data.inputs, data.targets}, want);
}

}  // namespace

std::unique_ptr<Dataset> open_table(const DataSpec& data, const std::string& path, Split split,
                                    const SampleShape& want, const Statistics* known) {
  if (!data.means.empty() || !data.stds.empty())
    throw ConfigError("configuration", data.means.empty() ? "data.stds" : "data.means",
                      "is for fields; a table is normalised by what its training rows hold", "leave it out");
  if (!data.variables.empty() || data.dt != 1)
    throw ConfigError("configuration", data.dt != 1 ? "data.dt" : "data.variables",
                      "is for fields; a row of a table is a sample by itself", "leave it out");
  const std::vector<std::string> names = columns_of(data);
  const bool tail = split == Split::valid && path.empty();  // the end of data.train validates
  const RowChoice choice = row_choice(data);
  const bool physical = known && known->mean.empty();
  if (physical && !tail) return whole_table(mapped_table(path, "data.valid", names, choice), data, want);
  std::shared_ptr<const MappedTable> training = mapped_table(data.train, "data.train", names, choice);
  const auto first =
      static_cast<int64_t>(std::round(data.train_fraction * static_cast<double>(training->rows())));
  if (first == 0 || (tail && first == training->rows()))
    throw ConfigError(data.train, "data.train_fraction",
                      "leaves no row to " + std::string(first == 0 ? "train" : "validate"),
                      first == 0 ? "raise it" : "lower it, or name data.valid");
  Statistics statistics;
  if (!physical) statistics = statistics_of_rows(*training, first, names, data.train);
  const bool other = split == Split::valid && !tail;
  const auto table = other ? mapped_table(path, "data.valid", names, choice) : training;
  const int64_t begin = tail ? first : 0, end = split == Split::train ? first : table->rows();
  const int64_t limit = split == Split::train ? data.limit_samples : data.limit_valid_samples;
  const int64_t rows = limit > 0 ? std::min(limit, end - begin) : end - begin;
  return std::make_unique<TableDataset>(table, begin, rows, std::move(statistics),
                                        ChannelNames{data.inputs, data.targets}, want);
}

void require_tables(const DataSpec& data) {
  if (data.train.empty() && data.valid.empty()) return;
  const std::vector<std::string> names = columns_of(data);
  if (!data.train.empty()) require_table(data.train, "data.train", names, row_choice(data));
  if (!data.valid.empty()) require_table(data.valid, "data.valid", names, row_choice(data));
}

}  // namespace isobar
