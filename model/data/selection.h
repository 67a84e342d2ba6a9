// What is chosen of fields, as if it were a file: channels of several files joined on their times, of chosen
// dates, in a region, every so many points; static fields and forcings as further channels; what is masked or
// missing filled by the mean.
//
//   FieldFiles chosen = select_fields(std::move(parts), "z.zarr,t2m.nc", "data.train", choice);
//
// Files that say their times become one: a month's last step and the next month's first are a pair. Of files
// that do not (HDF5 fields), each stays its own, and dates and forcings are refused.
#pragma once
#include <string>
#include <vector>

#include "model/data/field_file.h"

namespace isobar {

/// `parts`: of each part of `path`, its files in order. Throws ConfigError.
FieldFiles select_fields(std::vector<FieldFiles> parts, const std::string& path, const std::string& key,
                         const FieldChoice& choice);

}  // namespace isobar
