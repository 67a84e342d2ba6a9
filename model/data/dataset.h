// Samples on disk: pairs (state at t, state at t + dt) of channels on H x W points, normalised per channel.
// data.inputs and data.targets say which channels of the files are which (channels.h).
//
// Two formats. (1) The NERSC layout: a directory of yearly HDF5 files (name ends in the 4-digit year), each
// with one dataset `fields` [time, channel, lat, lon] f32; pairs never cross years. (2) CF NetCDF as the
// Copernicus Climate Data Store delivers it: packed shorts with scale_factor/add_offset, _FillValue, any axis
// order CF allows (axes found by standard_name/units/axis attributes, latitude flipped to north-south,
// vertical levels become channels). A larger file grid is cropped to its first H rows and W columns.
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

#include "model/base/spec.h"
#include "model/data/field_choice.h"
#include "model/data/left_out.h"

namespace isobar {

struct FieldShape {
  int64_t channels, height, width;
  int64_t size() const { return channels * height * width; }
};

struct SampleShape {  // on one grid
  SampleShape(FieldShape both) : input(both), target(both) {}
  SampleShape(FieldShape in, FieldShape out) : input(in), target(out) {}
  FieldShape input, target;
  bool of_table = false;         // rows of a table (table_dataset.h), each a point of `channels` columns
  int64_t history = 1;           // times among the input's channels, oldest first
  int64_t steps = 1;             // of a roll-out: targets of a sample, one data.dt after the other …
  int64_t first_step = 1;        // … the first of them so many after the newest input
  int64_t fixed = 0;             // channels of the input that stand once, behind all times
  int64_t known = 0, later = 0;  // channels of a time that nobody predicts; so many later steps read theirs
  bool feeds_back = false;       // predictions are read again: targets are the first of a time's inputs
  /// Channels of the input that each time has
  int64_t of_a_time() const { return (input.channels - fixed) / history; }
  /// From the oldest input to the last target, in data.dt.
  int64_t span() const { return history - 1 + first_step + steps - 1; }
  bool masked = false;  // which points of the targets count is read, too
  int64_t classes = 0;  // the target is one of so many, counted from 0 and not normalised; 0: it is numbers
  FieldShape of_files(int64_t channels) const { return {channels, input.height, input.width}; }
};

/// One of the tensors that a sample is made of, under the name by which nets read it (Plan::batch).
struct SampleTensor {
  std::string name;
  int64_t size;  // f32 numbers of a sample
};

/// Its input; the targets of a roll-out's steps, "target" and on; what is known of later steps, "forcing" and
/// on (model/base/step_tensor.h); of each target a "mask", 1 where it counts and 0 where it is missing.
std::vector<SampleTensor> tensors_of(const SampleShape& shape);

struct ChannelNames {
  std::vector<std::string> inputs, targets;
  /// Of each target, which input is the same variable, earlier (-1: none).
  std::vector<int64_t> persistent() const;
};

/// Of what a net reads. Throws ConfigError for one that reads words.
SampleShape sample_shape(const RunSpec& spec);

struct Statistics {  // per channel of the files; an empty vector means "do not normalise"
  std::vector<float> mean, std;
};

/// Where and when samples are, as far as files say: what a forecast is written with.
struct Coordinates {
  std::vector<double> latitude, longitude;  // degrees, of the rows and columns that are read; may be empty
  std::string no_degrees;                   // why they are, where the files have other rows and columns
  std::string time_units, calendar;         // "" : times are not known
  std::vector<std::string> units, input_units;  // of the targets, of the inputs; may be empty
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;       // number of pairs
  virtual SampleShape shape() const = 0;  // after cropping
  virtual ChannelNames channels() const = 0;
  virtual LeftOut left_out() const { return {}; }
  virtual Coordinates coordinates() const { return {}; }
  virtual double target_time(int64_t) const { return std::numeric_limits<double>::quiet_NaN(); }
  /// When the newest input was, or so many data.dt later, in hours since 1970 (UTC); NaN: nobody knows
  virtual double hours(int64_t, int64_t /*later*/) const { return std::numeric_limits<double>::quiet_NaN(); }
  /// The sample whose newest input is one data.dt after that of sample i; -1: there is none
  virtual int64_t one_later(int64_t /*i*/) const { return -1; }
  /// What turns a normalised target back, and an input; empty: it was not normalised.
  virtual Statistics target_statistics() const { return {}; }
  virtual Statistics input_statistics() const { return {}; }
  /// Channels that hardly vary where they train, and are only centred (usable() in stats.h)
  virtual std::vector<std::string> flat_channels() const { return {}; }
  /// What the files call the classes of the target, where they do: by class, "" for one without a name
  virtual std::vector<std::string> class_names() const { return {}; }
  /// Reads, decodes and normalises pair i into input and the first target, each [channels,H,W] f32.
  /// Thread-safe. Throws ConfigError for a truncated file or for NaN and fill values in the data, naming
  /// file, time step and channel.
  virtual void read(int64_t i, float* input, float* target) const = 0;
  /// All that a sample is made of: its input, its target, and what else a dataset brings (a mask), which then
  /// overrides both of these.
  virtual std::vector<SampleTensor> tensors() const { return tensors_of(shape()); }
  /// Reads sample i, each of its tensors to where `to` says, in their order. As read() otherwise.
  virtual void read_tensors(int64_t i, std::span<float* const> to) const { read(i, to[0], to[1]); }
};

/// Opens what a run will read in a child, which a damaged file may end: before MPI, threads and devices are.
/// Throws ConfigError.
void require_data(const RunSpec& spec);

/// Whether a run normalises by statistics of data.train that nobody has computed yet.
bool needs_statistics(const DataSpec& data, const SampleShape& want);

/// Those statistics, computed in a child (model/data/foreign.h) that begins at once: by one process, before
/// MPI, threads and devices are. What is returned waits for them, once. Both throw ConfigError, the latter
/// for all that open_dataset would refuse in data.train. Where needs_statistics.
std::function<Statistics()> begin_statistics(const DataSpec& data, SampleShape want);

/// Opens data.train or data.valid (or, when `path` is empty, noise made in memory). Checks the shape of the
/// file against `want` before anything is read. `known`: the statistics, where needs_statistics; null: they
/// are computed here; empty ones: samples stay in physical units, NaN where a mask leaves something out, and
/// only `path` is opened. Throws ConfigError.
std::unique_ptr<Dataset> open_dataset(const DataSpec& data, const std::string& path, Split split,
                                      SampleShape want, const Statistics* known = nullptr);

}  // namespace isobar
