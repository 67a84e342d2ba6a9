// NERSC's ViT prints each epoch in several lines, which make one:
//
//   Time taken for epoch 1 is 822.6 sec, avg 46.1 samples/sec
//     Avg train loss=0.361745
//     Avg val loss=0.2812
//     Total validation time: 49.1 sec
//
// and what its device uses: "Memory usage after forward pass: 53.4 GB.", which are GiB.
#pragma once
#include <optional>
#include <string_view>

#include "bench/logs/quantities.h"

namespace isobar::logs {

class NerscReader {
 public:
  std::optional<Quantities> operator()(std::string_view line);

 private:
  std::optional<Quantities> begin(std::string_view line);
  Quantities epoch_, valid_;
};

}  // namespace isobar::logs
