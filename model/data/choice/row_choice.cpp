#include "model/data/choice/row_choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/base/error.h"
#include "model/base/rng.h"

namespace isobar::data {
namespace {

constexpr uint64_t kThinning = 0x7468696e;          // a random stream used only here
constexpr double kHashes = 18446744073709551616.0;  // 2^64

uint64_t hash_of(int64_t place) {
  const auto r = philox(kThinning, 0, static_cast<uint64_t>(place));
  return uint64_t{r[0]} << 32 | r[1];
}

}  // namespace

RowChoice row_choice(const DataSpec& data) {
  RowChoice c{.thin_fraction = data.thin_fraction, .max_patterns = data.max_patterns};
  if (data.mask_mode == MaskMode::both) return c;
  c.ice = data.ice_variable;
  c.least_ice = data.min_ice_concentration;
  c.with_ice = data.mask_mode == MaskMode::sea_ice;
  return c;
}

RowGatherer::RowGatherer(RowChoice choice, size_t columns)
    : choice_(std::move(choice)),
      columns_(columns),
      kept_columns_(columns - (choice_.ice.empty() ? 0 : 1)),
      numbers_in_(columns) {}

void RowGatherer::offer(int64_t place, const double* numbers) {
  bool whole = true;
  for (size_t c = 0; c < columns_; ++c) {
    const bool there = std::isfinite(numbers[c]);
    numbers_in_[c] += there;
    whole = whole && there;
  }
  if (!whole) {
    ++table_.left_out.missing;
    return;
  }
  if (!choice_.ice.empty() && (numbers[kept_columns_] >= choice_.least_ice) != choice_.with_ice) {
    ++table_.left_out.masked;
    return;
  }
  const uint64_t hash = hash_of(place);
  if (choice_.thin_fraction < 1 && static_cast<double>(hash) >= choice_.thin_fraction * kHashes) {
    ++table_.left_out.thinned;
    return;
  }
  for (size_t c = 0; c < kept_columns_; ++c) table_.values.push_back(static_cast<float>(numbers[c]));
  table_.places.push_back(place);
  ++table_.rows;
  if (choice_.max_patterns == 0) return;
  hashes_.push_back(hash);
  if (table_.rows >= 2 * choice_.max_patterns) keep_least();  // bounds the memory
}

// Keeps the max_patterns rows with the smallest hashes, so that the result does not depend on how often this
// is called.
void RowGatherer::keep_least() {
  const int64_t most = choice_.max_patterns;
  if (most == 0 || table_.rows <= most) return;
  std::vector<int64_t> row(table_.rows);
  std::iota(row.begin(), row.end(), 0);
  std::nth_element(row.begin(), row.begin() + most, row.end(),
                   [&](int64_t a, int64_t b) { return std::pair(hashes_[a], a) < std::pair(hashes_[b], b); });
  row.resize(most);
  std::sort(row.begin(), row.end());
  const auto width = static_cast<int64_t>(kept_columns_);
  for (int64_t to = 0; to < most; ++to) {
    hashes_[to] = hashes_[row[to]];
    table_.places[to] = table_.places[row[to]];
    std::copy_n(table_.values.begin() + row[to] * width, width, table_.values.begin() + to * width);
  }
  table_.left_out.thinned += table_.rows - most;
  table_.rows = most;
  hashes_.resize(most);
  table_.places.resize(most);
  table_.values.resize(most * width);
}

SampleTable RowGatherer::table(const std::string& path, const std::string& key,
                               const std::vector<std::string>& names) {
  for (size_t c = 0; c < columns_; ++c)
    if (numbers_in_[c] == 0)
      throw ConfigError(path, key,
                        "column '" + (c < kept_columns_ ? names[c] : choice_.ice) + "' holds no number",
                        c < kept_columns_ ? "leave it out of data.inputs and data.targets"
                                          : "name another ice concentration in data.ice_variable");
  keep_least();
  if (table_.rows > 0) return std::move(table_);
  if (table_.left_out.masked + table_.left_out.thinned == 0)
    throw ConfigError(path, key, "a value is missing in every row",
                      "leave out the columns that are rarely there");
  throw ConfigError(path, key,
                    "no row is left: in " + std::to_string(table_.left_out.missing) +
                        " a value is missing, " + std::to_string(table_.left_out.masked) + " are masked, " +
                        std::to_string(table_.left_out.thinned) + " thinned out",
                    "change data.mask_mode, data.min_ice_concentration or data.thin_fraction");
}

}  // namespace isobar::data
