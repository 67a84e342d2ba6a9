// Data for runs without data.train: smooth noise made in memory, which needs no file and no disk bandwidth.
//
// State t is bilinear between the points of a coarse grid of normal deviates, averaged over three
// neighbouring times, so that states one step apart correlate (about 2/3). Mean 0, variance about 1; in rows
// of a table each value is such a deviate. The deviates are made once, when the set is opened, because steps
// would otherwise wait for random numbers.
#pragma once
#include <memory>

#include "model/data/dataset.h"

namespace isobar::data {

std::unique_ptr<Dataset> make_noise(int64_t samples, int64_t dt, Split split, const SampleShape& shape);

}  // namespace isobar::data
