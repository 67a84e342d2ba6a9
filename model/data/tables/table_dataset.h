// The rows of a table as samples: data.inputs and data.targets name columns, each normalised by its mean and
// standard deviation over the training rows.
//
//   auto set = open_table(data, path, Split::train, {{14, 1, 1}, {1, 1, 1}});
#pragma once
#include <memory>

#include "model/data/dataset.h"

namespace isobar::data {

/// `known`: empty statistics for rows in physical units, else null, because a table's statistics are computed
/// here. Throws ConfigError like read_table, and for a class target with other values.
std::unique_ptr<Dataset> open_table(const DataSpec& data, const std::string& path, Split split,
                                    const SampleShape& want, const Statistics* known = nullptr);

/// Throws ConfigError unless data.train and data.valid can be opened as tables; reads them in a child
/// (require_table). `classes` as in SampleShape.
void require_tables(const DataSpec& data, int64_t classes);

}  // namespace isobar::data
