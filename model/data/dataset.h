// Samples on disk: pairs (state at t, state at t + dt) of channels on H x W points, normalised per channel.
// data.inputs and data.targets choose the channels (channels.h).
//
// Formats: the NERSC layout, a directory of yearly HDF5 files (name ends in the 4-digit year), each with one
// dataset `fields` [time, channel, lat, lon] f32, where pairs never cross years; and CF archives (NetCDF,
// Zarr, .npz, GRIB; cf_file.h), with packed values, missing values and axes in any order. Latitudes are
// flipped to north-south, and vertical levels become channels. A larger grid is cropped to its first H rows
// and W columns.
//
//   auto set = open_dataset(spec.data, spec.data.train, Split::train, shape);
//   set->read(i, input, target);      // thread-safe, really parallel
#pragma once
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/base/dtype.h"
#include "model/base/spec/spec.h"
#include "model/data/choice/left_out.h"
#include "model/data/fields/field_choice.h"

namespace isobar::data {

struct FieldShape {
  int64_t channels, height, width;
  int64_t size() const { return channels * height * width; }
};

struct SampleShape {  // input and target lie on one grid
  SampleShape(FieldShape both) : input(both), target(both) {}
  SampleShape(FieldShape in, FieldShape out) : input(in), target(out) {}
  FieldShape input, target;
  bool of_table = false;         // a sample is a row of a table (table_dataset.h) with `channels` columns
  int64_t history = 1;           // times among the input's channels, oldest first
  int64_t steps = 1;             // targets of a roll-out, data.dt apart …
  int64_t first_step = 1;        // … the first of them this many data.dt after the newest input
  int64_t fixed = 0;             // input channels that appear once, after those of all times
  int64_t known = 0, later = 0;  // channels of a time that are never predicted; later steps that read theirs
  bool feeds_back = false;       // predictions become inputs: targets are the first channels of a time
  /// Input channels of one time
  int64_t of_a_time() const { return (input.channels - fixed) / history; }
  /// From the oldest input to the last target, in data.dt.
  int64_t span() const { return history - 1 + first_step + steps - 1; }
  bool masked = false;  // samples include a mask of the target points that count
  int64_t classes = 0;  // above 0: the target is a class index below this, not normalised
  int64_t words = 0;    // above 0: a sample is a row of tokens below this (token_dataset.h)
  FieldShape of_files(int64_t channels) const { return {channels, input.height, input.width}; }
};

/// One tensor of a sample, under the name by which nets read it (Plan::batch).
struct SampleTensor {
  std::string name;
  int64_t size;              // values per sample
  DType dtype = DType::f32;  // i32: integers lie in the places of floats
};

/// "input"; a "target" for each step of a roll-out; a "forcing" for each later step (names:
/// model/base/step_tensor.h); a "mask" for each target, 1 where it counts and 0 where it is missing. Nets of
/// words have "tokens" and "labels".
std::vector<SampleTensor> tensors_of(const SampleShape& shape);

struct ChannelNames {
  std::vector<std::string> inputs, targets;
  /// For each target, the input that is the same variable at an earlier time (-1: none).
  std::vector<int64_t> persistent() const;
};

/// The shape of the samples that the run's net reads.
SampleShape sample_shape(const RunSpec& spec);

struct Statistics {  // per channel of the files; an empty vector means "do not normalise"
  std::vector<float> mean, std;
};

/// Place, time and units of samples as far as files give them, for the files of forecasts.
struct Coordinates {
  std::vector<double> latitude, longitude;  // degrees of rows and columns, of a table's samples; {}: unknown
  std::vector<double> times;                // of a table's samples
  std::string no_degrees;                   // why they are empty, if the files have other axes
  int64_t rows = 0, columns = 0;            // of the files' grid, the first of which are read; 0: unknown
  std::string time_units, calendar;         // "": times are unknown
  std::vector<std::string> units, input_units;  // may be empty
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;       // number of pairs
  virtual SampleShape shape() const = 0;  // after cropping
  virtual ChannelNames channels() const = 0;
  virtual LeftOut left_out() const { return {}; }
  virtual Coordinates coordinates() const { return {}; }
  /// Those of files of forecasts: a table's are of each sample, and its files are opened for them.
  virtual Coordinates places() const { return coordinates(); }
  virtual double target_time(int64_t) const { return std::numeric_limits<double>::quiet_NaN(); }
  /// Time of sample i's newest input plus `later` data.dt, in hours since 1970 (UTC); NaN: unknown
  virtual double hours(int64_t, int64_t /*later*/) const { return std::numeric_limits<double>::quiet_NaN(); }
  /// The sample whose newest input is one data.dt after that of sample i; -1: none
  virtual int64_t one_later(int64_t /*i*/) const { return -1; }
  /// Mean and deviation by which targets and inputs were normalised; empty: they were not.
  virtual Statistics target_statistics() const { return {}; }
  virtual Statistics input_statistics() const { return {}; }
  /// Channels that hardly vary in the training data and are only centred (usable() in stats.h)
  virtual std::vector<std::string> flat_channels() const { return {}; }
  /// Names of the target's classes as far as the files have them; "" for a class without a name
  virtual std::vector<std::string> class_names() const { return {}; }
  /// Reads, decodes and normalises pair i into input and the first target, each [channels,H,W] f32;
  /// thread-safe. Throws ConfigError for a truncated file or for NaN and fill values in the data, naming
  /// file, time step and channel.
  virtual void read(int64_t i, float* input, float* target) const = 0;
  /// All tensors of a sample. A dataset with more than input and target (a mask) overrides this and
  /// read_tensors.
  virtual std::vector<SampleTensor> tensors() const { return tensors_of(shape()); }
  /// Reads sample i like read(), each of tensors() to its address in `to`.
  virtual void read_tensors(int64_t i, std::span<float* const> to) const { read(i, to[0], to[1]); }
};

/// Opens the run's data in a child process, since a damaged file may crash the libraries. To be called before
/// MPI, threads and devices start; throws ConfigError.
void require_data(const RunSpec& spec);

/// True when a run needs statistics of data.train and names no files with them.
bool needs_statistics(const DataSpec& data, const SampleShape& want);

/// Starts a child process (model/data/files/foreign.h) that computes these statistics; the returned function,
/// which may be called once, waits for them and throws ConfigError for whatever open_dataset refuses in
/// data.train. To be called by one process, before MPI, threads and devices start, when needs_statistics().
std::function<Statistics()> begin_statistics(const DataSpec& data, SampleShape want);

/// Opens data.train or data.valid (or, when `path` is empty, noise made in memory), and throws ConfigError if
/// the file's shape is not `want` before it reads data. `known`: the statistics, when needs_statistics();
/// null: they are computed here; empty: samples stay in physical units with NaN for masked points, and only
/// `path` is opened.
std::unique_ptr<Dataset> open_dataset(const DataSpec& data, const std::string& path, Split split,
                                      SampleShape want, const Statistics* known = nullptr);

}  // namespace isobar::data
