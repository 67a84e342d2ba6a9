#include "model/data/tables/table_dataset.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "model/base/error.h"
#include "model/data/choice/kept.h"
#include "model/data/choice/row_choice.h"
#include "model/data/files/netcdf/netcdf_file.h"
#include "model/data/statistics/stats.h"
#include "model/data/tables/table_cache.h"

namespace isobar::data {
namespace {

constexpr int64_t kMostNamed = 1 << 16;  // classes

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
  /// `path`: where the table was gathered from, for its coordinates
  TableDataset(std::shared_ptr<const MappedTable> table, std::string path, int64_t first, int64_t rows,
               Statistics statistics, ChannelNames names, const SampleShape& shape,
               std::vector<std::string> class_names = {})
      : table_(std::move(table)),
        path_(std::move(path)),
        first_(first),
        rows_(rows),
        statistics_(usable(std::move(statistics), &flat_)),
        names_(std::move(names)),
        units_(units_of_table(path_, "data", columns())),
        shape_(shape),
        class_names_(std::move(class_names)) {}
  int64_t size() const override { return rows_; }
  SampleShape shape() const override { return shape_; }
  ChannelNames channels() const override { return names_; }
  LeftOut left_out() const override { return table_->left_out(); }
  std::vector<std::string> class_names() const override { return class_names_; }
  Coordinates coordinates() const override {
    if (units_.empty()) return {};
    const auto inputs = units_.begin() + static_cast<std::ptrdiff_t>(names_.inputs.size());
    return {.units = {inputs, units_.end()}, .input_units = {units_.begin(), inputs}};
  }
  Coordinates places() const override {
    const TablePoints of = points_of_table(path_, "data", columns());
    Coordinates at = coordinates();
    if (!of.times.empty()) at.time_units = of.time_units, at.calendar = of.calendar;
    for (int64_t i = 0; i < rows_ && of.points > 0; ++i) {
      const int64_t place = table_->place(first_ + i);
      const auto point = static_cast<size_t>(place % of.points),
                 step = static_cast<size_t>(place / of.points);
      if (!of.latitude.empty())
        at.latitude.push_back(of.latitude.at(point)), at.longitude.push_back(of.longitude.at(point));
      if (!of.times.empty()) at.times.push_back(of.times.at(step));
    }
    return at;
  }
  std::vector<std::string> flat_channels() const override {
    std::vector<std::string> names;
    for (const size_t c : flat_)
      names.push_back(c < names_.inputs.size() ? names_.inputs[c] : names_.targets[c - names_.inputs.size()]);
    return names;
  }
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
  std::vector<std::string> columns() const {
    std::vector<std::string> all = names_.inputs;
    all.insert(all.end(), names_.targets.begin(), names_.targets.end());
    return all;
  }
  std::shared_ptr<const MappedTable> table_;
  std::string path_;
  int64_t first_, rows_;
  std::vector<size_t> flat_;  // columns
  Statistics statistics_;
  ChannelNames names_;
  std::vector<std::string> units_;  // of columns(); {}: unknown
  SampleShape shape_;
  std::vector<std::string> class_names_;
};

// Statistics of rows [0, rows), in two passes; `classes`: the last column is a class and is not normalised.
Statistics computed_statistics(const MappedTable& t, int64_t rows, bool classes) {
  Statistics s;
  for (int64_t c = 0; c < t.columns() - (classes ? 1 : 0); ++c) {
    double mean = 0, squares = 0;
    for (int64_t r = 0; r < rows; ++r) mean += static_cast<double>(t.row(r)[c]);
    mean /= static_cast<double>(rows);
    for (int64_t r = 0; r < rows; ++r) {
      const double d = static_cast<double>(t.row(r)[c]) - mean;
      squares += d * d;
    }
    s.mean.push_back(static_cast<float>(mean));
    s.std.push_back(static_cast<float>(std::sqrt(squares / static_cast<double>(rows))));
  }
  if (classes) s.mean.push_back(0), s.std.push_back(1);
  return s;
}

// The same statistics, cached for all ranks and runs
Statistics statistics_of_rows(const MappedTable& t, int64_t rows, bool classes) {
  const std::string name = "statistics-" + std::to_string(rows) + (classes ? "-classes" : "");
  const auto compute = [&] {
    const Statistics s = computed_statistics(t, rows, classes);
    return nlohmann::json{{"mean", s.mean}, {"std", s.std}};
  };
  nlohmann::json j = kept_with(t, name, compute);
  const auto fits = [&](const char* key) {
    const auto at = j.find(key);
    return at != j.end() && at->is_array() && at->size() == static_cast<size_t>(t.columns());
  };
  if (!fits("mean") || !fits("std")) {
    say_made_again(t.file(), "what is kept with it is of another table", "computed");
    j = compute();
  }
  const auto numbers = [&](const char* key) {
    std::vector<float> out;
    for (const auto& x : j[key])
      out.push_back(x.is_number() ? x.get<float>() : std::nanf(""));  // JSON has no NaN
    return out;
  };
  return {numbers("mean"), numbers("std")};
}

// Throws unless every value of the last column is a class.
void check_classes(const MappedTable& t, int64_t classes, const std::string& path, const std::string& key,
                   const std::string& column) {
  const std::string of = "net.out_features = " + std::to_string(classes);
  for (int64_t r = 0; r < t.rows(); ++r) {
    const float x = t.row(r)[t.columns() - 1];
    char shown[32];
    std::snprintf(shown, sizeof shown, "%.9g", static_cast<double>(x));
    if (x != std::floor(x))
      throw ConfigError(path, key, "column '" + column + "' holds " + shown + ", which is no class",
                        "number the classes 0, 1, 2, …: whole numbers below " + of);
    if (x < 0 || x >= static_cast<float>(classes))
      throw ConfigError(path, key,
                        "column '" + column + "' holds class " + shown + ", and classes are 0 to " +
                            std::to_string(classes - 1),
                        "number them from 0, and set net.out_features to their number");
  }
}

// Class names from CF's flag_values and flag_meanings, if these match the column's classes; {}: none
std::vector<std::string> names_of_classes(const std::string& path, const std::string& column,
                                          int64_t classes) {
  for (const std::string& file : files_of_table(path)) {
    if (std::filesystem::path(file).extension() != ".nc") continue;
    try {
      const NetcdfFile netcdf(file);
      const CfVariable* v = netcdf.find(column);
      if (!v) continue;
      const std::vector<double> values = netcdf.numbers(*v, "flag_values", static_cast<size_t>(kMostNamed));
      std::istringstream words(netcdf.text(*v, "flag_meanings"));
      std::vector<std::string> names(static_cast<size_t>(classes));
      bool any = false;
      for (const double value : values) {
        std::string word;
        if (!(words >> word)) break;
        if (value != std::floor(value) || value < 0 || value >= static_cast<double>(classes)) continue;
        names[static_cast<size_t>(value)] = word;
        any = true;
      }
      if (any) return names;
    } catch (const ArrayError& e) {
      throw ConfigError(file, "data.train", e.what(), e.mend);
    }
  }
  return {};
}

// All rows, in physical units
std::unique_ptr<Dataset> whole_table(std::shared_ptr<const MappedTable> table, const DataSpec& data,
                                     const std::string& path, const SampleShape& want) {
  if (want.classes > 0) check_classes(*table, want.classes, path, "data.valid", data.targets.back());
  const int64_t limit = data.limit_valid_samples, all = table->rows();
  const int64_t rows = limit > 0 ? std::min(limit, all) : all;
  return std::make_unique<TableDataset>(
      std::move(table), path, 0, rows, Statistics(), ChannelNames{data.inputs, data.targets}, want,
      want.classes > 0 ? names_of_classes(path, data.targets.back(), want.classes)
                       : std::vector<std::string>());
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
  const bool tail = split == Split::valid && path.empty();  // validates on the end of data.train
  const RowChoice choice = row_choice(data);
  const bool physical = known && known->mean.empty();
  if (physical && !tail)
    return whole_table(mapped_table(path, "data.valid", names, choice), data, path, want);
  std::shared_ptr<const MappedTable> training = mapped_table(data.train, "data.train", names, choice);
  const auto first =
      static_cast<int64_t>(std::round(data.train_fraction * static_cast<double>(training->rows())));
  if (first == 0 || (tail && first == training->rows()))
    throw ConfigError(data.train, "data.train_fraction",
                      "leaves no row to " + std::string(first == 0 ? "train" : "validate"),
                      first == 0 ? "raise it" : "lower it, or name data.valid");
  Statistics statistics;
  if (!physical) statistics = statistics_of_rows(*training, first, want.classes > 0);
  const bool other = split == Split::valid && !tail;
  const auto table = other ? mapped_table(path, "data.valid", names, choice) : training;
  std::vector<std::string> class_names;
  if (want.classes > 0) {
    const std::string& column = data.targets.back();
    check_classes(*training, want.classes, data.train, "data.train", column);
    if (other) check_classes(*table, want.classes, path, "data.valid", column);
    class_names = names_of_classes(other ? path : data.train, column, want.classes);
    if (class_names.empty()) class_names = names_of_classes(data.train, column, want.classes);
  }
  const int64_t begin = tail ? first : 0, end = split == Split::train ? first : table->rows();
  const int64_t limit = split == Split::train ? data.limit_samples : data.limit_valid_samples;
  const int64_t rows = limit > 0 ? std::min(limit, end - begin) : end - begin;
  return std::make_unique<TableDataset>(table, other ? path : data.train, begin, rows, std::move(statistics),
                                        ChannelNames{data.inputs, data.targets}, want,
                                        std::move(class_names));
}

void require_tables(const DataSpec& data, int64_t classes) {
  if (data.train.empty() && data.valid.empty()) return;
  const std::vector<std::string> names = columns_of(data);
  for (const auto& [path, key] : {std::pair{data.train, "data.train"}, {data.valid, "data.valid"}}) {
    if (path.empty()) continue;
    require_table(path, key, names, row_choice(data));
    if (classes > 0)
      check_classes(*mapped_table(path, key, names, row_choice(data)), classes, path, key,
                    data.targets.back());
  }
}

}  // namespace isobar::data
