// A selection of fields with the interface of a file: channels of several files joined on their times, chosen
// dates, a region, a stride, static fields and forcings as further channels, and masked or missing points
// filled with the mean.
//
//   FieldFiles chosen = select_fields(std::move(parts), "z.zarr,t2m.nc", "data.train", choice);
//
// Files with times are joined, so that the last step of a month and the first of the next are a pair. Files
// without times (HDF5 fields) stay separate, and refuse dates and forcings.
#pragma once
#include <string>
#include <vector>

#include "model/data/fields/field_file.h"

namespace isobar::data {

/// `parts`: the files of each part of `path`, in order. Throws ConfigError.
FieldFiles select_fields(std::vector<FieldFiles> parts, const std::string& path, const std::string& key,
                         const FieldChoice& choice);

}  // namespace isobar::data
