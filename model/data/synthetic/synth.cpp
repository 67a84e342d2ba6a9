#include "model/data/synthetic/synth.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "model/base/text/progress.h"
#include "model/data/fields/field_file.h"
#include "model/data/files/foreign.h"
#include "model/data/files/netcdf/hdf5_writer.h"
#include "model/data/files/npy.h"
#include "model/data/statistics/stats.h"

namespace isobar::data {

namespace fs = std::filesystem;

namespace {

constexpr double kHoursPerStep = 6;
constexpr int64_t kSampledSteps = 128;

void check(const std::string& dir, const SyntheticOptions& o) {
  const auto refuse = [&](const std::string& key, const std::string& what, const std::string& mend) {
    throw ConfigError(dir, key, what, mend);
  };
  if (o.channels < 1 || o.channels > 10000) refuse("channels", std::to_string(o.channels), "use 1 to 10000");
  if (o.height < 2 || o.width < 2)
    refuse("height, width", "a grid of " + std::to_string(o.height) + " x " + std::to_string(o.width),
           "use at least 2 x 2");
  if (o.samples_per_year < 2) refuse("samples-per-year", std::to_string(o.samples_per_year), "use 2 or more");
  if (o.train_years < 1 || o.valid_years < 0 || o.test_years < 0)
    refuse("years", "impossible numbers", "use at least one year to train on");
  if (o.first_year < 1000 || o.first_year + o.train_years + o.valid_years + o.test_years > 10000)
    refuse("first-year", std::to_string(o.first_year), "years have four digits");
  if (o.deflate < 0 || o.deflate > 9) refuse("deflate", std::to_string(o.deflate), "use 0 (none) to 9");
}

nlohmann::json describe(const SyntheticOptions& o) {
  return {{"generator", 1},
          {"train_years", o.train_years},
          {"valid_years", o.valid_years},
          {"test_years", o.test_years},
          {"first_year", o.first_year},
          {"samples_per_year", o.samples_per_year},
          {"channels", o.channels},
          {"height", o.height},
          {"width", o.width},
          {"seed", o.seed},
          {"deflate", o.deflate}};
}

/// Writes the mean over time of every point, [1,C,H,W]. Reads in a child, since files of an earlier call may
/// be damaged.
void write_time_means(const std::string& train, FieldShape shape, const std::string& path) {
  read_foreign(train, "", {}, [&](const FieldFiles& files, const ChildProgress& done) {
    const auto segments = segments_of(files);
    std::vector<double> sum(shape.size());
    std::vector<float> fields(shape.size());
    int64_t n = 0;
    for (const TimeSegment& s : segments) {
      const int64_t stride =
          std::max<int64_t>(1, s.steps * static_cast<int64_t>(segments.size()) / kSampledSteps);
      for (int64_t t = 0; t < s.steps; t += stride) {
        s.file->read(s.first + t, shape, nullptr, fields.data());
        for (int64_t i = 0; i < shape.size(); ++i) sum[i] += static_cast<double>(fields[i]);
        done(++n);
      }
    }
    for (int64_t i = 0; i < shape.size(); ++i)
      fields[i] = static_cast<float>(sum[i] / static_cast<double>(n));
    write_npy(path, {1, shape.channels, shape.height, shape.width}, fields);
    return std::string();
  });
}

}  // namespace

void make_synthetic(const std::string& dir, const SyntheticOptions& o) {
  check(dir, o);
  const FieldShape shape{o.channels, o.height, o.width};
  const std::string description = json_text(describe(o), 2) + "\n", marker = dir + "/synthetic.json";
  const bool same = fs::exists(marker) && read_file(marker) == description;
  if (!same && fs::exists(dir) && !fs::is_empty(dir)) {
    if (!o.force)
      throw ConfigError(dir, "",
                        fs::exists(marker) ? "holds a synthetic set made with other options" : "is not empty",
                        "name another directory, or add --force");
    for (const char* part : {"train", "valid", "test", "stats"}) fs::remove_all(fs::path(dir) / part);
  }

  struct File {
    std::string path;
    int64_t year;
  };
  std::vector<File> todo;
  int64_t year = 0;
  const std::pair<const char*, int64_t> parts[] = {
      {"train", o.train_years}, {"valid", o.valid_years}, {"test", o.test_years}};
  for (const auto& [part, years] : parts) {
    if (years > 0) fs::create_directories(fs::path(dir) / part);
    for (int64_t y = 0; y < years; ++y, ++year) {
      const std::string path = dir + "/" + part + "/" + std::to_string(o.first_year + year) + ".h5";
      if (!fs::exists(path)) todo.push_back({path, year});
    }
  }
  const double bytes =
      static_cast<double>(todo.size()) * static_cast<double>(o.samples_per_year * shape.size()) * 4;
  const auto space = fs::space(dir);
  if (o.deflate == 0 && bytes > static_cast<double>(space.available))
    throw ConfigError(dir, "",
                      "the set needs " + std::to_string(static_cast<int64_t>(bytes / 1e9) + 1) +
                          " GB, the disk has " + std::to_string(space.available / 1000000000) + " GB left",
                      "ask for fewer samples or a smaller grid");
  write_atomically(marker, description);

  const SyntheticAtmosphere atmosphere(shape, o.seed);
  std::vector<float> fields(shape.size());
  Progress bar("synthetic data", static_cast<int64_t>(todo.size()) * o.samples_per_year,
               o.show_progress && !todo.empty());
  int64_t done = 0;
  for (const File& file : todo) {
    FieldsWriter out(file.path, o.samples_per_year, shape, atmosphere.names(), atmosphere.units(), o.deflate);
    for (int64_t t = 0; t < o.samples_per_year; ++t) {
      atmosphere.at(static_cast<double>(file.year) * 8760 + static_cast<double>(t) * kHoursPerStep,
                    fields.data());
      out.append(fields.data());
      bar.update(++done, fs::path(file.path).filename());
    }
    out.finish();
  }
  bar.finish();

  const std::string stats = dir + "/stats", train = dir + "/train";
  if (todo.empty() && fs::exists(stats + "/global_stds.npy") && fs::exists(stats + "/time_means.npy")) return;
  fs::create_directories(stats);
  write_time_means(train, shape, stats + "/time_means.npy");
  write_statistics(stats, compute_statistics(train, {}, kSampledSteps, o.show_progress));
}

}  // namespace isobar::data
