// Cross-entropy of classes, of which a rank may hold some columns.
#include <algorithm>

#include "model/plan/plan.h"
#include "tests/backend/op_case.h"

namespace isobar::testing {
namespace {

struct Rows {
  int64_t rows, cols, column0;
  int64_t padding = 0;
  int64_t classes() const { return cols - padding; }
  double of(const Numbers& x, int64_t r, int64_t j) const { return x[r * cols + j]; }
  bool here(const Operand& labels, int64_t r) const {
    const auto label = static_cast<int64_t>(labels.before[r]) - column0;
    return label >= 0 && label < classes();
  }
};

Numbers largest_of(const Rows& s, const Numbers& logits) {
  Numbers most;
  for (int64_t r = 0; r < s.rows; ++r)
    most.push_back(*std::max_element(logits.begin() + r * s.cols, logits.begin() + r * s.cols + s.classes()));
  return most;
}

Numbers sums_of(const Rows& s, const Numbers& logits, const Operand& labels, const Numbers& largest) {
  Numbers sums(static_cast<size_t>(2 * s.rows));
  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t j = 0; j < s.classes(); ++j) sums[r] += std::exp(s.of(logits, r, j) - largest[r]);
    if (s.here(labels, r))
      sums[s.rows + r] = s.of(logits, r, static_cast<int64_t>(labels.before[r]) - s.column0) - largest[r];
  }
  return sums;
}

// Losses of rows whose label another rank holds lack its logit
Numbers losses_of(const Rows& s, const Numbers& logits, const Operand& labels) {
  const Numbers largest = largest_of(s, logits), sums = sums_of(s, logits, labels, largest);
  Numbers losses;
  for (int64_t r = 0; r < s.rows; ++r)
    losses.push_back(std::log(sums[r]) + (s.here(labels, r) ? -sums[s.rows + r] : largest[r]));
  return losses;
}

}  // namespace

void add_class_cases(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  if (kind != plan::OpKind::cross_entropy_max && kind != plan::OpKind::cross_entropy_sums &&
      kind != plan::OpKind::cross_entropy)
    return;
  for (const DType act : kActs)
    for (const Rows& s :
         {Rows{7, 33, 0}, Rows{5, 65, 16}, Rows{1, 8, 0}, Rows{6, 40, 8, 9}, Rows{2, 1100, 0}}) {
      const bool whole = s.column0 == 0;
      const Operand logits = normals(random, act, s.rows * s.cols, 2);
      Operand labels{.type = whole ? DType::i32 : DType::f32, .before = {}};
      for (int64_t r = 0; r < s.rows; ++r)
        labels.before.push_back(static_cast<double>(random.integer(0, s.column0 + s.classes() - 1)));
      const plan::CrossEntropyAttrs a{.rows = s.rows,
                                      .cols = s.cols,
                                      .weight = 0.25f,
                                      .column0 = s.column0,
                                      .padding = s.padding,
                                      .tokens = s.padding > 0 ? 2 : 1};
      const Numbers largest = largest_of(s, logits.before), sums = sums_of(s, logits.before, labels, largest);
      const Operand most = given(DType::f32, largest);
      const std::string what = size_text(act, s.rows, s.cols) + (whole ? "" : " of more");
      if (kind == plan::OpKind::cross_entropy_max) {
        to.push_back({kind, what, a, {logits}, {written(DType::f32, largest)}});
      } else if (kind == plan::OpKind::cross_entropy_sums) {
        to.push_back({kind, what, a, {logits, labels, most}, {written(DType::f32, sums)}});
      } else {
        const double unit = act == DType::f16 ? 8 : 1;  // fp16's loss is scaled
        Operand scalars = given(DType::f32, Numbers(plan::kScalars, 0.0));
        scalars.before[plan::kLossScale] = 8;
        const int64_t unread = s.padding > 0 ? 1 : 0;  // samples that fill the batch
        scalars.before[plan::kPadding] = static_cast<double>(unread);
        double loss = 0, right = 0;
        for (int64_t r = 0; r < s.rows - unread * a.tokens; ++r) {
          loss += 0.25 * (std::log(sums[r]) - sums[s.rows + r]);
          const auto row = logits.before.begin() + r * s.cols;
          const auto best = std::max_element(row, row + s.classes()) - row;
          right += best + s.column0 == static_cast<int64_t>(labels.before[r]) ? 0.25 : 0;
        }
        const Numbers slopes = gradient([&](const Numbers& x) { return losses_of(s, x, labels); },
                                        logits.before, Numbers(static_cast<size_t>(s.rows), 0.25 * unit));
        to.push_back({kind,
                      what,
                      a,
                      {logits, labels, most, given(DType::f32, sums), scalars},
                      {written(act, slopes), added(random, DType::f32, {loss, right})}});
      }
    }
}

}  // namespace isobar::testing
