// Data when data.train is empty: smooth noise made in memory, so that a run needs no file and no disk
// bandwidth.
//
// State t is bilinear between the points of a coarse grid of normal deviates, averaged over three
// neighbouring times, hence states one step apart resemble each other (correlation about 2/3). Mean 0,
// variance about 1. Of rows of a table each number is such a deviate. The deviates are made once, when the
// set is opened, and a sample is interpolated from them at the speed of memory, or a step would wait for
// random numbers.
#pragma once
#include <memory>

#include "model/data/dataset.h"

namespace isobar {

std::unique_ptr<Dataset> make_noise(int64_t samples, int64_t dt, Split split, const SampleShape& shape);

}  // namespace isobar
