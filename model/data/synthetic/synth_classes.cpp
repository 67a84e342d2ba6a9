#include "model/data/synthetic/synth_classes.h"

#include <netcdf.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "model/base/error.h"
#include "model/base/rng.h"
#include "model/base/text/progress.h"
#include "model/data/files/library_lock.h"
#include "model/data/written/netcdf_output.h"

namespace isobar::data {
namespace {

// Random streams: patterns, classes of rows, noise, split
enum ClassStream : uint64_t { kPattern = 0x636c6173, kClassOfRow, kRowNoise, kDeal };

// Approximate distance of two patterns in standard deviations of the noise: 2 % of the rows of a pair are
// nearer to the other pattern.
constexpr double kApart = 4;

void require_possible_classes(const std::string& dir, const ClassesOptions& o) {
  if (o.samples < 10 || o.samples > 1 << 24)
    throw ConfigError(dir, "samples", std::to_string(o.samples), "use 10 to 16777216");
  if (o.features < 1 || o.features > 1 << 14)
    throw ConfigError(dir, "features", std::to_string(o.features), "use 1 to 16384");
  if (o.classes < 2 || o.classes > 1 << 14)
    throw ConfigError(dir, "classes", std::to_string(o.classes), "use 2 to 16384");
}

int32_t class_of_row(const ClassesOptions& o, int64_t row) {
  return static_cast<int32_t>(philox(o.seed, kClassOfRow, static_cast<uint64_t>(row))[0] %
                              static_cast<uint64_t>(o.classes));
}

void write_rows(NetcdfOutput& out, const ClassesOptions& o, const std::vector<int64_t>& rows, Progress& bar,
                int64_t& done) {
  const LibraryLock lock;
  out.text(NC_GLOBAL, "Conventions", "CF-1.8");
  out.text(NC_GLOBAL, "title", "synthetic classes, isobar data make-classes");
  const int dim = out.dimension("row", static_cast<int64_t>(rows.size()));
  std::vector<int> features(static_cast<size_t>(o.features));
  for (size_t f = 0; f < features.size(); ++f)
    features[f] = out.variable("x" + std::to_string(f), NC_FLOAT, {dim});
  const int label = out.variable("label", NC_INT, {dim});
  std::vector<std::string> meanings;
  for (int64_t k = 0; k < o.classes; ++k) meanings.push_back("pattern_" + std::to_string(k));
  out.flags(label, meanings);
  out.end_header();
  std::vector<int32_t> labels;
  for (const int64_t row : rows) labels.push_back(class_of_row(o, row));
  out.check(nc_put_var_int(out.id(), label, labels.data()), "write label");
  const auto size = static_cast<float>(kApart / std::sqrt(2 * static_cast<double>(o.features)));
  std::vector<float> column(rows.size()), patterns(static_cast<size_t>(o.classes));
  for (int64_t f = 0; f < o.features; ++f) {
    for (size_t k = 0; k < patterns.size(); ++k)
      patterns[k] =
          size * normal(o.seed, kPattern, k * static_cast<uint64_t>(o.features) + static_cast<uint64_t>(f));
    for (size_t r = 0; r < rows.size(); ++r)
      column[r] = patterns[static_cast<size_t>(labels[r])] +
                  normal(o.seed, kRowNoise, static_cast<uint64_t>(rows[r] * o.features + f));
    out.check(nc_put_var_float(out.id(), features[static_cast<size_t>(f)], column.data()), "write a feature");
    bar.update(++done);
  }
}

}  // namespace

void make_classes(const std::string& dir, const ClassesOptions& o) {
  require_possible_classes(dir, o);
  const std::vector<int64_t> deal = permutation(o.samples, o.seed, kDeal);
  const int64_t tenth = o.samples / 10;
  struct Part {
    const char* name;
    int64_t first, end;
  };
  const Part parts[] = {{"train.nc", 0, o.samples - 2 * tenth},
                        {"valid.nc", o.samples - 2 * tenth, o.samples - tenth},
                        {"test.nc", o.samples - tenth, o.samples}};
  for (const Part& p : parts)
    if (std::filesystem::exists(dir + "/" + p.name) && !o.force)
      throw ConfigError(dir + "/" + p.name, "", "is there already", "name another directory, or add --force");
  std::error_code failed;
  std::filesystem::create_directories(dir, failed);
  if (failed) throw ConfigError(dir, "", "cannot be made: " + failed.message(), "name another directory");
  Progress bar("synthetic classes", 3 * o.features, o.show_progress);
  int64_t done = 0;
  for (const Part& p : parts) {
    NetcdfOutput out(dir + "/" + p.name);
    write_rows(out, o, {deal.begin() + p.first, deal.begin() + p.end}, bar, done);
    out.finish();
  }
  bar.finish();
}

}  // namespace isobar::data
