// Steps in progress bars of tqdm, alone or within Lightning and Hugging Face's Trainer, and of Keras 2 and 3,
// whose time is the mean of its epoch so far:
//
//   Epoch 1:  10%|█         | 8/80 [00:05<00:45,  1.98it/s, v_num=0, train_loss=0.125]
//   8/80 ━━━━━━━━━━ 8s 120ms/step - accuracy: 0.5000 - loss: 2.3000
//
// A training may draw other bars (of downloads, data sets, validation), and its own again and again. The bar
// of the training is named after it ("Epoch 1", "Train", "Step"), or has no name and the total of the first
// such bar. It counts on where it begins anew, as it does in each epoch. A bar around it counts epochs, and
// one of images or samples no steps. Keras' evaluate() draws as its fit() does, and the latter alone says
// "Epoch 1/3" before, unless it is of one epoch.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "bench/logs/quantities.h"

namespace isobar::logs {

struct ProgressBar;

class BarReader {
 public:
  std::optional<Quantities> operator()(std::string_view line);

 private:
  enum class Kind : uint8_t { none, unnamed, epochs, named };  // of the training's bar, the best last

  std::optional<Quantities> keras(std::string_view line);
  bool is_of_training(const ProgressBar& bar);

  /// The training's bar; total: -1 before it, 0 unknown.
  struct Count {
    double total = -1, offset = 0, last = 0;
  };
  Count drawn_, keras_;
  bool in_epoch_ = false;  // of Keras
  Kind kind_ = Kind::none;
  bool nested_ = false;  // an unnamed bar was drawn within one of epochs
};

}  // namespace isobar::logs
