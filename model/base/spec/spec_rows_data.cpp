// Keys of data: what is read, and which of it becomes samples.
#include "model/base/spec/spec_rows.h"

namespace isobar {
namespace {

constexpr const char* kForcings[] = {"time_of_day", "day_of_year", "solar_zenith"};

const char* help_of_train(const NetSpec& net) {
  if (net.images())
    return "Training files: HDF5 directory, NetCDF, GRIB, Zarr or .npz; several with commas are joined on "
           "their times. Empty: noise.";
  if (net.words())
    return "Files of tokens: .bin of nanoGPT or llm.c, Megatron's .bin with .idx, .npy; several with commas. "
           "Empty: made ones.";
  return "Training table (.csv, .npz, .nc), or netCDF files on one grid with commas between: a row a point "
         "and "
         "step. Empty: noise.";
}

// Selection of fields in space, time and channels
void add_field_rows(KeyRows& to, RunSpec& s) {
  DataSpec& d = s.data;
  to.insert(
      to.end(),
      {{"data.dates", d.dates,
        "First and last date that train, inclusive: [2010, 2015] or [2019-03-01, 2019-03-25T18]. Empty: "
        "all."},
       {"data.valid_dates", d.valid_dates,
        "First and last date that validate, of data.train where data.valid is empty."},
       {"data.time_step", d.time_step, zero_or_positive("hours, e.g. 6; 0 takes every step"),
        "Only times that are multiples of these hours; 0: all."},
       {"data.region", d.region,
        "North, west, south, east in degrees; may cross the date line. Empty: the whole grid."},
       {"data.stride", d.stride, at_least(1), "Every n-th row and column."},
       {"data.channel_names", d.channel_names,
        "Names of the channels of HDF5 `fields`, in order: [u10m, v10m, t2m]. Empty: as the file says."},
       {"data.static_fields", d.static_fields, "Variables without a time axis, as further inputs."},
       {"data.static_file", d.static_file, "File that holds static fields and the mask. Empty: data.train."},
       {"data.forcings",
        d.forcings,
        {.words = kForcings},
        "Computed inputs: time_of_day, day_of_year, solar_zenith."},
       {"data.mask", d.mask,
        "Missing values: empty: an error; fill: the mean; missing: not counted; a static variable: points "
        "below 0.5 are not counted."}});
  if (s.net.own_history() == 0)
    to.emplace_back("data.history", d.history, at_least(1),
                    "States read, dt apart, oldest first; divides net.in_channels.");
}

// Selection of a table's rows
void add_table_rows(KeyRows& to, DataSpec& d) {
  to.insert(to.end(), {{"data.mask_mode", d.mask_mode,
                        "Rows kept: all, those with less ice than the threshold, or at least that."},
                       {"data.ice_variable", d.ice_variable, "Column or field of ice concentration."},
                       {"data.min_ice_concentration", d.min_ice_concentration,
                        "Threshold of data.mask_mode, in the variable's unit."},
                       {"data.thin_fraction", d.thin_fraction, within("(]", 0, 1, "e.g. 0.1 keeps a tenth"),
                        "Share of the remaining rows kept, chosen by a hash of their place."},
                       {"data.max_patterns", d.max_patterns, at_least(0), "Most rows kept; 0: all."}});
}

}  // namespace

void add_data_rows(KeyRows& to, RunSpec& s) {
  DataSpec& d = s.data;
  to.insert(to.end(), {{"data.train", d.train, help_of_train(s.net)},
                       {"data.valid", d.valid, "Validation files, as data.train. Empty: none."},
                       {"data.train_fraction", d.train_fraction, within("(]", 0, 1, "e.g. 0.8"),
                        "Share of the file's times or rows that train; the rest validates."},
                       {"data.dt", d.dt, from_to(1, 1 << 25), "File steps from input to target."},
                       {"data.variables", d.variables,
                        "Fields, a channel each; `z@500,850` is two levels, `z` all. Empty: every field."},
                       {"data.inputs", d.inputs,
                        "Channels or columns read, by name; `x0..x783` names 784. Empty: all."},
                       {"data.targets", d.targets,
                        "Channels or columns predicted, by name. Empty: the inputs; a table needs names."}});
  if (s.net.images()) add_field_rows(to, s);
  if (s.net.reads_rows()) add_table_rows(to, d);
  to.insert(
      to.end(),
      {{"data.means", d.means,
        ".npy file of channel means [1,C,1,1]. Empty: computed from the training set."},
       {"data.stds", d.stds, ".npy file of channel standard deviations, as data.means."},
       {"data.limit_samples", d.limit_samples, at_least(0), "Most training samples; 0: all."},
       {"data.limit_valid_samples", d.limit_valid_samples, at_least(0), "Most validation samples; 0: all."},
       {"data.workers", d.workers, from_to(0, 1024), "Loader threads; 0: the training thread reads."},
       {"data.prefetch", d.prefetch, from_to(1, 1024), "Batches that each loader thread keeps ready."},
       {"data.shuffle", d.shuffle, "Shuffle the samples of each epoch."}});
}

}  // namespace isobar
