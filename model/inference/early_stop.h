// Early stopping: the validation loss no longer falls, or the norm of the Jacobian no longer changes. Both
// are checked after every validation from train.min_steps on.
//
//   EarlyStop stop;                                                  // kept in checkpoints
//   stop.observe(train, step, loss, frobenius);
//   if (!stop.reason.empty()) …
//
// train.early_stopping_patience: stops after more than this number of validations in a row without a new
// lowest loss (Lightning's EarlyStopping with min_delta 0). train.jacobian_window, _tolerance: stops when max
// - min of the norm over this number of validations is below this share of the mean (the UFS emulator's
// convergence test).
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"

namespace isobar::inference {

inline bool may_stop_early(const TrainSpec& t) {
  return t.early_stopping_patience > 0 || t.jacobian_window > 0;
}

struct EarlyStop {
  double best = std::numeric_limits<double>::infinity();
  int64_t bad = 0;            // validations in a row without a lower loss
  std::vector<double> norms;  // of the Jacobian, the last jacobian_window
  std::string reason;         // "": no stop

  /// Returns true when the loss is the lowest so far.
  bool observe(const TrainSpec& t, int64_t step, double loss, std::optional<double> norm) {
    reason.clear();
    const bool better = loss < best;
    best = std::min(best, loss);
    bad = better ? 0 : bad + 1;
    if (norm && t.jacobian_window > 0) {
      norms.push_back(*norm);
      if (static_cast<int64_t>(norms.size()) > t.jacobian_window) norms.erase(norms.begin());
    }
    if (step < t.min_steps) return better;
    char text[200] = "";
    if (t.early_stopping_patience > 0 && bad > t.early_stopping_patience) {
      std::snprintf(text, sizeof text,
                    "the validation loss has not fallen below %.6g for %ld validations "
                    "(train.early_stopping_patience %ld)",
                    best, static_cast<long>(bad), static_cast<long>(t.early_stopping_patience));
    } else if (t.jacobian_window > 0 && static_cast<int64_t>(norms.size()) == t.jacobian_window) {
      const auto [least, most] = std::minmax_element(norms.begin(), norms.end());
      const double mean =
          std::accumulate(norms.begin(), norms.end(), 0.0) / static_cast<double>(norms.size());
      if (*most - *least < t.jacobian_tolerance * mean)
        std::snprintf(text, sizeof text,
                      "the norm of the Jacobian stayed within %.2g of %.6g over %ld validations "
                      "(train.jacobian_tolerance %g)",
                      (*most - *least) / mean, mean, static_cast<long>(t.jacobian_window),
                      t.jacobian_tolerance);
    }
    reason = text;
    return better;
  }
};

}  // namespace isobar::inference
