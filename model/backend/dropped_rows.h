// The rows of a dropout op in runs whose random numbers are adjacent: a sample's rows may be on several ranks
// of context parallelism, and every layout must draw the same numbers.
//
//   for_dropped_rows(c.a, c.micro, [&](int64_t row, int64_t first, int64_t rows) {
//     // the op's rows from `row` on are those of the step from `first` on
//   });
#pragma once
#include <algorithm>

#include "model/plan/ops/attrs.h"

namespace isobar {

template <class F>
void for_dropped_rows(const plan::DropoutAttrs& a, int64_t micro, const F& f) {
  const int64_t step = micro * a.period;
  const int64_t held = a.tokens.size();
  if (held == a.sample) return f(int64_t{0}, step + a.row0, a.rows);
  for (int64_t row = 0; row < a.rows;) {
    const int64_t sample = (a.row0 + row) / held, token = (a.row0 + row) % held;
    const int64_t end = token < a.tokens.count ? a.tokens.count : held;  // of the run
    const int64_t rows = std::min(end - token, a.rows - row);
    f(row, step + sample * a.sample + a.tokens.place(token), rows);
    row += rows;
  }
}

}  // namespace isobar
