// NERSC's ViT prints each epoch in several lines, which make one:
//
//   Time taken for epoch 1 is 822.6 sec, avg 46.1 samples/sec
//     Avg train loss=0.361745
//     Avg val loss=0.2812
//     Total validation time: 49.1 sec
//
// and what its device uses: "Memory usage after forward pass: 53.4 GB.", which are GiB.
#include <optional>
#include <string_view>
#include <utility>

#include "bench/logs/forms/forms.h"
#include "bench/logs/log_text.h"
#include "bench/logs/quantities.h"

namespace isobar::logs {
namespace {

class NerscReader {
 public:
  std::optional<Quantities> operator()(std::string_view line) {
    Quantities out;
    if (line.find("Time taken for epoch") != std::string_view::npos) return begin(line);
    if (const auto loss = number_after(line, "Avg train loss=")) {
      out = std::exchange(epoch_, {});
      out[LogQuantity::loss] = loss;
    } else if (const auto valid = number_after(line, "Avg val loss=")) {
      valid_[LogQuantity::valid_loss] = valid;
      return Quantities();
    } else if (const auto seconds = number_after(line, "Total validation time:")) {
      out = std::exchange(valid_, {});
      out[LogQuantity::valid_s] = seconds;
    } else {
      for (const char* words : {"Memory usage after forward pass:", "Scaffolding memory high watermark:"})
        if (const auto gib = number_after(line, words)) out[LogQuantity::memory_bytes] = kGiB * *gib;
      if (!out.any()) return std::nullopt;
    }
    return out;
  }

 private:
  std::optional<Quantities> begin(std::string_view line) {
    // The loss of the epoch before may be missing.
    const Quantities before = std::exchange(epoch_, {});
    epoch_[LogQuantity::epoch] = number_after(line, "Time taken for epoch");
    epoch_[LogQuantity::epoch_s] = number_after(line, " is ");
    const bool steps = line.find("iters/sec") != std::string_view::npos;
    epoch_[steps ? LogQuantity::steps_per_s : LogQuantity::samples_per_s] = number_after(line, "avg ");
    epoch_.drop_impossible();
    return before;
  }
  Quantities epoch_, valid_;
};

}  // namespace

LineReader nersc_lines() {
  return NerscReader();
}

}  // namespace isobar::logs
