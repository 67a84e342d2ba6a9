// One file of fields: T time steps of C channels on an H x W grid, in physical units, rows from north to
// south. The interface of all formats, on which data sets, statistics and `inspect` are built.
//
//   auto files = open_fields("era5/train", "data.train", {});      // a directory or one file, any format
//   files[0]->read(t, files[0]->info().shape, nullptr, out);       // out [C,H,W] f32
#pragma once
#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "model/data/dataset.h"
#include "model/data/fields/chunk_cache.h"
#include "model/data/fields/field_choice.h"
#include "model/data/files/raw_array.h"

namespace isobar::data {

struct FieldInfo {
  std::string path,
      key;             // for messages: the file, and the configuration key that names it ("": command line)
  std::string format;  // "HDF5 fields", "netCDF-4", "netCDF classic", "Zarr 2", "Zarr 3", "npz", "GRIB 2"
  int64_t steps = 0;
  FieldShape shape{};                        // the whole grid
  std::vector<std::string> channels, units;  // units may be empty
  std::vector<std::string> variables;        // of each channel: "z" for z500; empty: same as channels
  int64_t inputs_alone = 0;   // number of last channels that are never targets: static fields, forcings
  bool masked = false;        // missing points are filled (selection.h)
  std::vector<double> times;  // one per step, in time_units; empty when the file has none
  std::string time_units, calendar;
  std::string time_unread;  // why the distance between steps is unknown; "": known, or no time axis
  std::vector<double> latitude, longitude;  // degrees, in the order of the rows and columns; may be empty
  std::string no_degrees;                   // why they are empty although the file has some
  std::vector<double> area;                 // north, south, west, east of a curvilinear grid, degrees
  std::string area_of;                      // the variables that give `area`
  std::vector<double> grid_identity;        // coordinate values, to compare grids without degrees
  std::vector<std::string> left_out;        // other contents of the file, for messages
  std::string remark;                       // what was dropped from the grid
  int64_t steps_per_chunk = 1;
  StorageLayout layout;  // of the first variable
};

/// Rows and columns of a grid
struct GridWindow {
  int64_t row = 0, column = 0, height, width;
};

/// No mask helps: it leaves out what is missing.
inline const char* const kInfinityMend =
    "correct it or drop this step, or store it as missing (NaN or _FillValue)";

class FieldFile {
 public:
  virtual ~FieldFile() = default;
  const FieldInfo& info() const { return info_; }
  /// Reads step t, the first crop.height rows and crop.width columns of every channel, into out [C,H,W];
  /// normalises when `norm` is given and not empty. Thread-safe; throws ConfigError naming file, time step
  /// and channel when data are truncated, corrupt, NaN, infinite or missing.
  void read(int64_t t, FieldShape crop, const Statistics* norm, float* out) const {
    read_step(t, {.height = crop.height, .width = crop.width}, norm, out, false);
  }
  /// Reads step t in physical units, with NaN for missing values such as land in ocean fields.
  void read_with_gaps(int64_t t, FieldShape crop, float* out) const {
    read_step(t, {.height = crop.height, .width = crop.width}, nullptr, out, true);
  }
  void read_with_gaps(int64_t t, const GridWindow& window, float* out) const {
    read_step(t, window, nullptr, out, true);
  }
  /// read() for files with missing points; `there` [C,H,W] gets 1 for valid points and 0 for missing ones.
  virtual void read_and_tell(int64_t t, FieldShape crop, const Statistics* norm, float* out,
                             float* there) const {
    read(t, crop, norm, out);
    std::fill_n(there, crop.size(), 1.0f);
  }
  /// RawArray::try_library for all variables, which share `most_bytes`. Throws ConfigError.
  virtual void try_library(int64_t most_bytes, const std::function<void()>& alive) const = 0;

 protected:
  virtual void read_step(int64_t t, const GridWindow& window, const Statistics* norm, float* out,
                         bool gaps) const = 0;
  /// Normalises one channel in place and refuses values that are not finite.
  void finish_plane(int64_t t, int64_t c, const GridWindow& window, const Statistics* norm,
                    float* plane) const {
    finish_stretch(t, c, window, norm, plane, {0, window.height * window.width, false});
  }
  /// The same for a stretch (RawArray::read_in_pieces) of planes, the first of which is channel c.
  struct Stretch {
    int64_t first, n;
    bool swapped;
    float fill = std::numeric_limits<float>::quiet_NaN();  // value to search for
  };
  /// Returns true when some value was `fill`.
  bool finish_stretch(int64_t t, int64_t c, const GridWindow& window, const Statistics* norm, float* planes,
                      Stretch s) const;
  [[noreturn]] void fail(int64_t t, int64_t c, const std::string& what, const std::string& mend) const;
  FieldInfo info_;
};

/// Throws ConfigError unless `steps` and the extents are positive and plausible: memory for names,
/// coordinates and times grows with them, and a damaged file may declare anything.
void require_sizes(const std::string& path, const std::string& key, int64_t steps, FieldShape shape);

/// The fields of a CF file that become channels: names of variables or of channels; {} = all.
struct NamedFields {
  std::vector<std::string> names;
  bool some_elsewhere = false;          // names may be in other files
  std::vector<std::string> given = {};  // names that HDF5 `fields` get (data.channel_names); {} = the file's
};

std::unique_ptr<FieldFile> open_hdf5_fields(const std::string& path, const std::string& key,
                                            std::shared_ptr<ChunkCache> cache,
                                            const std::vector<std::string>& channel_names = {});
/// NetCDF, Zarr, .npz or GRIB (cf_file.h)
std::unique_ptr<FieldFile> open_cf_fields(const std::string& path, const std::string& key,
                                          const NamedFields& variables,
                                          const std::shared_ptr<ChunkCache>& cache);

using FieldFiles = std::vector<std::unique_ptr<FieldFile>>;

/// Splits a path at commas, unless there is a file of that name.
std::vector<std::string> field_parts(const std::string& path);

/// The files of each part of a path: one file or Zarr store, or all *.h5/*.hdf5 (else *.nc, else GRIB, else
/// Zarr, else *.npz) of a directory, sorted by name. Throws ConfigError.
std::vector<std::filesystem::path> field_paths(const std::string& path, const std::string& key);

/// Why b is on another grid than a, for messages; "": it is on the same. Longitudes may differ by 360
/// degrees.
std::string other_grid(const FieldInfo& a, const FieldInfo& b);

/// Opens the files of one part, and checks that they agree in grid and channels. Calls `opening` with each
/// file's index before opening it; throws ConfigError.
FieldFiles open_series(const std::string& path, const std::string& key, const NamedFields& variables,
                       const std::shared_ptr<ChunkCache>& cache,
                       const std::function<void(size_t)>& opening = {});

/// Opens all files that a path names and applies the selection (selection.h). Calls `opening` with each
/// file's index before opening it; throws ConfigError.
FieldFiles open_fields(const std::string& path, const std::string& key, const FieldChoice& choice,
                       const std::function<void(size_t)>& opening = {});

/// A range of steps of one file without gaps in time; a pair lies within one segment.
struct TimeSegment {
  const FieldFile* file;
  int64_t first, steps;
};

/// All segments, in order. A file is cut where a step of its time axis is another than the usual one, by more
/// than half of the shorter, and between all steps where the distance between them is unknown.
std::vector<TimeSegment> segments_of(const FieldFiles& files);

/// The first `fraction` of all steps for training, or the rest for validation.
std::vector<TimeSegment> split_in_time(const std::vector<TimeSegment>& all, double fraction, Split split);

}  // namespace isobar::data
