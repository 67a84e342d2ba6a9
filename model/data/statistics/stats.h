// Mean and standard deviation per channel, over all rows, columns and steps, and their .npy files.
//
//   Statistics s = compute_statistics("era5/train");
//   write_statistics("era5/stats", s);        // global_means.npy, global_stds.npy, each [1,C,1,1]
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model/data/dataset.h"
#include "model/data/fields/field_file.h"

namespace isobar::data {

/// Statistics for normalisation: replaces a deviation below 1e-6 of the mean's magnitude, or below the
/// smallest normal number, by 1, so that a channel which hardly varies is only centred. Checkpoints store the
/// result; `flat` gets the indices of such channels.
Statistics usable(Statistics s, std::vector<size_t>* flat = nullptr);

/// Computes statistics of the valid points of `segments` (at least one step) in double precision, in
/// parallel; dt > 0: of the change over dt steps. max_steps > 0 limits it to evenly spaced steps. The
/// deviation of a constant channel is 0; `progress` gets thousandths.
Statistics compute_statistics(const std::vector<TimeSegment>& segments, FieldShape crop,
                              int64_t max_steps = 0, const std::function<void(int64_t)>& progress = {},
                              int64_t dt = 0);

struct FileStatistics : Statistics {
  std::vector<std::string> channels, units;  // units may be empty
};

/// Statistics of a whole directory or file: from the cache (stats_cache.h), or else computed in a child
/// process (foreign.h).
FileStatistics compute_statistics(const std::string& path, const FieldChoice& choice = {},
                                  int64_t max_steps = 0, bool show_progress = false, int64_t dt = 0);

/// Serialises statistics for another process; empty ones give "".
std::string packed(const Statistics& s);
Statistics unpacked(const std::string& bytes);

void write_statistics(const std::string& dir, const Statistics& s);

/// Reads data.means and data.stds for `channels` channels. Throws ConfigError: wrong size, negative or not
/// finite.
Statistics read_statistics(const std::string& means, const std::string& stds, int64_t channels);

}  // namespace isobar::data
