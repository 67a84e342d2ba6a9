// Steps in progress bars of tqdm, alone or within Lightning and Hugging Face's Trainer:
//
//   Epoch 1:  10%|█         | 8/80 [00:05<00:45,  1.98it/s, v_num=0, train_loss=0.125]
//
// A training may draw other bars (of downloads, data sets, validation), and its own again and again. The bar
// of the training is named after it ("Epoch", "Train", "Step"), or has no name and the total of the first
// such bar. It counts on where it begins anew, as it does in each epoch.
#pragma once
#include <optional>
#include <string_view>

#include "bench/logs/quantities.h"

namespace isobar::logs {

class BarReader {
 public:
  std::optional<Quantities> operator()(std::string_view line);

 private:
  double total_ = -1, offset_ = 0, last_ = 0;  // total: of the training's bar; -1: none yet
  bool named_ = false;
};

}  // namespace isobar::logs
