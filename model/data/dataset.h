// Samples on disk: pairs (state at t, state at t + dt) of C channels on H x W points, normalised per channel.
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
#include <memory>
#include <string>
#include <vector>

#include "model/base/spec.h"

namespace isobar {

struct FieldShape {
  int64_t channels, height, width;
  int64_t size() const { return channels * height * width; }
};

/// Of what a net reads. Throws ConfigError for one that reads words.
FieldShape field_shape(const NetSpec& net);

struct Statistics {  // per channel; an empty vector means "do not normalise"
  std::vector<float> mean, std;
};

enum class Split { train, valid };

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;      // number of pairs
  virtual FieldShape shape() const = 0;  // after cropping
  virtual std::vector<std::string> channel_names() const = 0;
  /// Reads, decodes and normalises pair i into input and target, each [C,H,W] f32. Thread-safe. Throws
  /// ConfigError for a truncated file or for NaN and fill values in the data, naming file, time step and
  /// channel.
  virtual void read(int64_t i, float* input, float* target) const = 0;
};

/// Whether a run normalises by statistics of data.train that nobody has computed yet.
bool needs_statistics(const DataSpec& data);

/// Those statistics, computed in a child (model/data/foreign.h) that begins at once: by one process, before
/// MPI, threads and devices are. What is returned waits for them, once. Both throw ConfigError, the latter
/// for all that open_dataset would refuse in data.train.
std::function<Statistics()> begin_statistics(const DataSpec& data, FieldShape want);

/// Opens data.train or data.valid (or, when `path` is empty, noise made in memory). Checks the shape of the
/// file against `want` before anything is read. `known`: the statistics, where needs_statistics; null: they
/// are computed here. Throws ConfigError.
std::unique_ptr<Dataset> open_dataset(const DataSpec& data, const std::string& path, Split split,
                                      FieldShape want, const Statistics* known = nullptr);

}  // namespace isobar
