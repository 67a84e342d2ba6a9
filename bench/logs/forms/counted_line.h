// Lines of trainings that count batches in brackets: timm, torchvision, mmcv and mmengine, Swin, PyTorch's
// ImageNet example.
//
//   Train: 0 [  50/1251 (  4%)]  Loss: 6.94 (6.95)  Time: 0.403s, 2539.40/s  (0.465s, 2201.13/s)  LR: 1e-06
//   Epoch: [0]  [  10/1251]  eta: 0:12:33  lr: 0.5  loss: 6.98 (6.98)  time: 0.600  data: 0.2  max mem: 5567
//   Epoch(train)   [1][  50/1251]  lr: 1e-04  eta: 2:03:04  time: 0.456  memory: 5567  loss: 6.93
//   Iter(train) [   50/80000]  lr: 1e-04  eta: 2:03:04  time: 0.456  memory: 5567  loss: 2.93
//   Train: [0/300][10/1251]	eta 0:24:00 lr 0.000001	time 0.4212 (1.1812)	loss 6.9353 (6.9403)	mem
//   9299MB
#pragma once
#include <optional>
#include <string_view>

#include "bench/logs/quantities.h"

namespace isobar::logs {

/// The step is counted from the begin of the first epoch; nothing for lines of a validation.
std::optional<Quantities> counted_line(std::string_view line);

}  // namespace isobar::logs
