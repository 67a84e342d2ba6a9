// Mean and standard deviation per channel, over all rows, columns and steps, and the .npy files for them.
//
//   Statistics s = compute_statistics("era5/train");
//   write_statistics("era5/stats", s);        // global_means.npy, global_stds.npy, each [1,C,1,1]
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model/data/dataset.h"
#include "model/data/field_file.h"

namespace isobar {

/// What samples are normalised by: a standard deviation below 1e-6 of its mean's size, or below the least
/// normal number, counts as 1, so that a channel which hardly varies is only centred. The one place where
/// that is decided: checkpoints keep what comes out of it. `flat`: gets the channels that are concerned, by
/// number.
Statistics usable(Statistics s, std::vector<size_t>* flat = nullptr);

/// Over `segments`, which hold a step or more, streaming, in double, by all cores. What is masked is left
/// out. dt > 0: of the change over so many steps. With max_steps > 0 and fewer than all steps, evenly spaced
/// steps are taken. A constant channel's standard deviation is 0. `progress` gets thousandths.
Statistics compute_statistics(const std::vector<TimeSegment>& segments, FieldShape crop,
                              int64_t max_steps = 0, const std::function<void(int64_t)>& progress = {},
                              int64_t dt = 0);

struct FileStatistics : Statistics {
  std::vector<std::string> channels, units;  // units may be empty
};

/// Over the whole of a directory or file, which is read in a child (model/data/foreign.h), unless they were
/// computed before (stats_cache.h).
FileStatistics compute_statistics(const std::string& path, const FieldChoice& choice = {},
                                  int64_t max_steps = 0, bool show_progress = false, int64_t dt = 0);

/// As bytes from one process to another, and back; of none: "".
std::string packed(const Statistics& s);
Statistics unpacked(const std::string& bytes);

void write_statistics(const std::string& dir, const Statistics& s);

/// Reads data.means and data.stds for `channels` channels. Throws ConfigError: wrong size, negative or not
/// finite.
Statistics read_statistics(const std::string& means, const std::string& stds, int64_t channels);

}  // namespace isobar
