// A synthetic table to learn classes from: for tests and demos of a classifier where no data are at hand.
// Each class is a random pattern of all features, and a row is its class's pattern under noise that is large
// beside it, so that no net is right about all rows. Rows are dealt to training, validation and test by a
// permutation: 80, 10 and 10 %.
//
//   make_classes("data/classes", {.samples = 1000, .features = 20, .classes = 3});
//   -> data/classes/train.nc, valid.nc, test.nc      x0 … x19 and label along `row`, label with flag_meanings
#pragma once
#include <cstdint>
#include <string>

namespace isobar {

struct ClassesOptions {
  int64_t samples = 10000, features = 784, classes = 10;
  uint64_t seed = 42;
  bool force = false;  // write over other files
  bool show_progress = false;
};

/// Throws ConfigError: impossible options, files are there and may not be replaced, the directory cannot be
/// written to.
void make_classes(const std::string& dir, const ClassesOptions& options);

}  // namespace isobar
