// One file of fields: T time steps of C channels on an H x W grid, in physical units, rows from north to
// south. What the two formats have in common; data sets, statistics and `inspect` are written over it.
//
//   auto files = open_fields("era5/train", "data.train", {});      // a directory or one file, either format
//   files[0]->read(t, files[0]->info().shape, nullptr, out);       // out [C,H,W] f32
#pragma once
#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "model/data/chunk_cache.h"
#include "model/data/dataset.h"
#include "model/data/field_choice.h"
#include "model/data/raw_array.h"

namespace isobar {

struct FieldInfo {
  std::string path,
      key;  // for messages: the file, and the configuration key that named it ("" on the command line)
  std::string format;  // "HDF5 fields", "netCDF-4", "netCDF classic", "Zarr 2", "Zarr 3", "npz", "GRIB 2"
  int64_t steps = 0;
  FieldShape shape{};                        // the whole grid
  std::vector<std::string> channels, units;  // units may be empty
  std::vector<std::string> variables;        // of each channel: "z" of z500; empty: the channels themselves
  int64_t inputs_alone = 0;   // the last so many channels are no forecast's: static ones, forcings
  bool masked = false;        // points may be missing, and are filled (selection.h)
  std::vector<double> times;  // one per step, in time_units; empty when the file does not say
  std::string time_units, calendar;
  std::string time_unread;  // why the distance between steps is unknown; "": known, or no time axis
  std::vector<double> latitude, longitude;  // degrees, in the order of the rows and columns; may be empty
  std::string no_degrees;                   // why they are empty where the file says something of them
  std::vector<double> area;                 // north, south, west, east of a grid that bends, in degrees
  std::string area_of;                      // the variables that say so
  std::vector<double> grid_identity;        // numbers that another grid without degrees would not have
  std::vector<std::string> left_out;        // what the file holds beside these fields, in words
  std::string remark;                       // what of its grid is left out
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
  /// Reads step t, the first crop.height rows and crop.width columns of every channel: out [C,H,W]. With
  /// `norm` (and its vectors not empty) subtracts mean and divides by std. Thread-safe. Throws ConfigError
  /// naming file, time step and channel when the data are truncated, corrupt, NaN, infinite or missing.
  void read(int64_t t, FieldShape crop, const Statistics* norm, float* out) const {
    read_step(t, {.height = crop.height, .width = crop.width}, norm, out, false);
  }
  /// The same in physical units where values may be missing (land in an ocean's fields): those are NaN.
  void read_with_gaps(int64_t t, FieldShape crop, float* out) const {
    read_step(t, {.height = crop.height, .width = crop.width}, nullptr, out, true);
  }
  void read_with_gaps(int64_t t, const GridWindow& window, float* out) const {
    read_step(t, window, nullptr, out, true);
  }
  /// read(), of files whose points may be missing, and which are there: `there` [C,H,W] is 1 or 0.
  virtual void read_and_tell(int64_t t, FieldShape crop, const Statistics* norm, float* out,
                             float* there) const {
    read(t, crop, norm, out);
    std::fill_n(there, crop.size(), 1.0f);
  }
  /// RawArray::try_library of all variables, each with its share of the bytes. Throws ConfigError.
  virtual void try_library(int64_t most_bytes, const std::function<void()>& alive) const = 0;

 protected:
  virtual void read_step(int64_t t, const GridWindow& window, const Statistics* norm, float* out,
                         bool gaps) const = 0;
  /// Normalises one channel in place and refuses what is not finite.
  void finish_plane(int64_t t, int64_t c, const GridWindow& window, const Statistics* norm,
                    float* plane) const {
    finish_stretch(t, c, window, norm, plane, {0, window.height * window.width, false});
  }
  /// The same of a stretch (RawArray::read_told) of the planes of channels `c` and on.
  struct Stretch {
    int64_t first, n;
    bool swapped;
    float fill = std::numeric_limits<float>::quiet_NaN();  // what is looked for, as well
  };
  /// Whether something was `fill`.
  bool finish_stretch(int64_t t, int64_t c, const GridWindow& window, const Statistics* norm, float* planes,
                      Stretch s) const;
  [[noreturn]] void fail(int64_t t, int64_t c, const std::string& what, const std::string& mend) const;
  FieldInfo info_;
};

/// Throws ConfigError unless `steps` and the extents are above 0 and such as fields have: what is kept of a
/// file in memory (names, coordinates, times) grows with them, and a damaged one declares anything.
void require_sizes(const std::string& path, const std::string& key, int64_t steps, FieldShape shape);

/// Which fields of a CF file are channels: names of variables, or of channels; {} = all of them.
struct NamedFields {
  std::vector<std::string> names;
  bool some_elsewhere = false;  // not all of them need be there
};

std::unique_ptr<FieldFile> open_hdf5_fields(const std::string& path, const std::string& key,
                                            std::shared_ptr<ChunkCache> cache);
/// NetCDF, Zarr, .npz or GRIB (cf_file.h)
std::unique_ptr<FieldFile> open_cf_fields(const std::string& path, const std::string& key,
                                          const NamedFields& variables,
                                          const std::shared_ptr<ChunkCache>& cache);

using FieldFiles = std::vector<std::unique_ptr<FieldFile>>;

/// A path's parts: what stands between commas, unless there is a file of that very name.
std::vector<std::string> field_parts(const std::string& path);

/// One file or Zarr store, or all *.h5/*.hdf5 (else *.nc, else GRIB, else Zarr, else *.npz) of a directory
/// sorted by name; of each part of a path, one after the other. Throws ConfigError.
std::vector<std::filesystem::path> field_paths(const std::string& path, const std::string& key);

/// Opens those of one part, and checks that they agree in grid and channels. Throws ConfigError. `opening` is
/// called with the number of each before.
FieldFiles open_series(const std::string& path, const std::string& key, const NamedFields& variables,
                       const std::shared_ptr<ChunkCache>& cache,
                       const std::function<void(size_t)>& opening = {});

/// Opens all that a path names, and what is chosen of it (selection.h). Throws ConfigError. `opening` is
/// called with the number of each file before.
FieldFiles open_fields(const std::string& path, const std::string& key, const FieldChoice& choice,
                       const std::function<void(size_t)>& opening = {});

/// A stretch of steps of one file without gaps: pairs lie inside of one segment.
struct TimeSegment {
  const FieldFile* file;
  int64_t first, steps;
};

/// All segments, in order. A file is cut where its time axis jumps by more than 1.5 times its usual step, and
/// between all steps where the distance between them is unknown.
std::vector<TimeSegment> segments_of(const FieldFiles& files);

/// The first `fraction` of all steps (train), or the rest (valid).
std::vector<TimeSegment> split_in_time(const std::vector<TimeSegment>& all, double fraction, Split split);

}  // namespace isobar
