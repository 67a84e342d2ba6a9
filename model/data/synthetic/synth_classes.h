// A synthetic table for tests and demos of a classifier. Each class is a random pattern of all features, and
// a row is its class's pattern plus noise so large that no net can classify all rows. A permutation splits
// the rows into training, validation and test: 80, 10 and 10 %.
//
//   make_classes("data/classes", {.samples = 1000, .features = 20, .classes = 3});
//   -> data/classes/train.nc, valid.nc, test.nc      x0 … x19 and label along `row`, label with flag_meanings
#pragma once
#include <cstdint>
#include <string>

namespace isobar::data {

struct ClassesOptions {
  int64_t samples = 10000, features = 784, classes = 10;
  uint64_t seed = 42;
  bool force = false;  // overwrite other files
  bool show_progress = false;
};

/// Throws ConfigError: impossible options, existing files without `force`, directory not writable.
void make_classes(const std::string& dir, const ClassesOptions& options);

}  // namespace isobar::data
