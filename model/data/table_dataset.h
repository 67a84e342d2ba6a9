// The rows of a table as samples: data.inputs and data.targets name its columns, each of which is normalised
// by its mean and standard deviation over the rows that train.
//
//   auto set = open_table(data, path, Split::train, {{14, 1, 1}, {1, 1, 1}});
#pragma once
#include <memory>

#include "model/data/dataset.h"

namespace isobar {

/// `known`: empty statistics, for rows in physical units; null otherwise, as a table's are computed here.
/// Throws ConfigError as read_table does, and where a target of classes holds anything else than those.
std::unique_ptr<Dataset> open_table(const DataSpec& data, const std::string& path, Split split,
                                    const SampleShape& want, const Statistics* known = nullptr);

/// data.train and data.valid can be opened so, `classes` as in SampleShape. Throws ConfigError. In a child
/// (require_table).
void require_tables(const DataSpec& data, int64_t classes);

}  // namespace isobar
