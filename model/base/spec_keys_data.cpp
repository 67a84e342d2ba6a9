// Keys of data: what is read, and which of it becomes samples.
#include "model/base/spec_keys.h"

namespace isobar {
namespace {

constexpr KeyRow kDataKeys[] = {
    {"data.train", "vit unet regional-gnn aurora graphcast", "",
     "Training files: HDF5 directory, NetCDF, GRIB, Zarr or .npz; several with commas are joined on their "
     "times. Empty: noise."},
    {"data.train", "mlp", "",
     "Training table (.csv, .npz, .nc), or netCDF files on one grid with commas between: a row a point and "
     "step. Empty: noise."},
    {"data.train", "gpt llama", "",
     "Files of tokens: .bin of nanoGPT or llm.c, Megatron's .bin with .idx, .npy; several with commas. Empty: "
     "made ones."},
    {"data.valid", "", "", "Validation files, as data.train. Empty: none."},
    {"data.train_fraction", "", "(0, 1]",
     "Share of the file's times or rows that train; the rest validates."},
    {"data.dates", "", "",
     "First and last date that train, inclusive: [2010, 2015] or [2019-03-01, 2019-03-25T18]. Empty: all."},
    {"data.valid_dates", "", "",
     "First and last date that validate, of data.train where data.valid is empty."},
    {"data.time_step", "", ">= 0", "Only times that are multiples of these hours; 0: all."},
    {"data.dt", "", ">= 1", "File steps from input to target."},
    {"data.history", "", ">= 1", "States read, dt apart, oldest first; divides net.in_channels."},
    {"data.variables", "", "",
     "Fields, a channel each; `z@500,850` is two levels, `z` all. Empty: every field."},
    {"data.inputs", "", "", "Channels or columns read, by name; `x0..x783` names 784. Empty: all."},
    {"data.targets", "", "",
     "Channels or columns predicted, by name. Empty: the inputs; a table needs names."},
    {"data.region", "", "",
     "North, west, south, east in degrees; may cross the date line. Empty: the whole grid."},
    {"data.stride", "", ">= 1", "Every n-th row and column."},
    {"data.static_fields", "", "", "Variables without a time axis, as further inputs."},
    {"data.static_file", "", "", "File that holds static fields and the mask. Empty: data.train."},
    {"data.forcings", "", "", "Computed inputs: time_of_day, day_of_year, solar_zenith."},
    {"data.mask", "", "",
     "Missing values: empty: an error; fill: the mean; missing: not counted; a static variable: points below "
     "0.5 are not counted."},
    {"data.mask_mode", "", "both | ocean | sea_ice",
     "Rows kept: all, those with less ice than the threshold, or at least that."},
    {"data.ice_variable", "", "", "Column or field of ice concentration."},
    {"data.min_ice_concentration", "", "", "Threshold of data.mask_mode, in the variable's unit."},
    {"data.thin_fraction", "", "(0, 1]",
     "Share of the remaining rows kept, chosen by a hash of their place."},
    {"data.max_patterns", "", ">= 0", "Most rows kept; 0: all."},
    {"data.means", "", "", ".npy file of channel means [1,C,1,1]. Empty: computed from the training set."},
    {"data.stds", "", "", ".npy file of channel standard deviations, as data.means."},
    {"data.limit_samples", "", ">= 0", "Most training samples; 0: all."},
    {"data.limit_valid_samples", "", ">= 0", "Most validation samples; 0: all."},
    {"data.workers", "", "[0, 1024]", "Loader threads; 0: the training thread reads."},
    {"data.prefetch", "", "[1, 1024]", "Batches that each loader thread keeps ready."},
    {"data.shuffle", "", "", "Shuffle the samples of each epoch."},
};

}  // namespace

std::span<const KeyRow> data_key_rows() {
  return kDataKeys;
}

}  // namespace isobar
