// Ops that move numbers: zeros, casts, copies, rows by index.
#include "tests/backend/op_case.h"

namespace isobar::testing {
namespace {

void zero(Random& random, std::vector<OpCase>& to) {
  for (const DType t : kActs)
    for (const int64_t n : {1, 63, 4100}) {
      Operand x = normals(random, t, n);
      x.want.assign(x.before.size(), 0.0);
      to.push_back({plan::OpKind::zero, size_text(t, 1, n), plan::ElementsAttrs{.count = n}, {}, {x}});
    }
}

void cast(Random& random, std::vector<OpCase>& to) {
  for (const DType from : kActs)
    for (const DType into : kActs)
      for (const int64_t n : {1, 63, 4100})
        for (const bool adds : {false, true}) {
          if (from != DType::f32 && into != DType::f32) continue;  // no net uses it
          if (adds && from == into && into != DType::f32) continue;
          const Operand x = normals(random, from, n);
          to.push_back({plan::OpKind::cast,
                        size_text(from, 1, n) + " to " + name_of(into) + (adds ? " adding" : ""),
                        plan::ElementsAttrs{.count = n, .accumulate = adds},
                        {x},
                        {adds ? added(random, into, x.before) : written(into, x.before)}});
        }
}

// Copies blocks of n between larger arrays; their surroundings stay unchanged
void copy(Random& random, std::vector<OpCase>& to) {
  for (const DType t : kActs)
    for (const int64_t n : {1, 7, 64}) {
      const int64_t extent[3] = {2, 3, 5};
      plan::CopyAttrs a{.run = n};
      const Operand x = normals(random, t, 2 * 4 * 6 * (n + 3));
      Operand y = normals(random, t, 2 * 3 * 5 * n + 11);
      y.want = y.before;
      for (int i = 0; i < 3; ++i) a.extent[i] = extent[i];
      a.from[0] = 4 * 6 * (n + 3), a.from[1] = 6 * (n + 3), a.from[2] = n + 3;
      a.to[0] = n, a.to[1] = 2 * n, a.to[2] = 3 * 2 * n;  // in another order
      for (int64_t i = 0; i < 2; ++i)
        for (int64_t j = 0; j < 3; ++j)
          for (int64_t k = 0; k < 5; ++k)
            for (int64_t l = 0; l < n; ++l)
              y.want[i * a.to[0] + j * a.to[1] + k * a.to[2] + l] =
                  x.before[i * a.from[0] + j * a.from[1] + k * a.from[2] + l];
      y.allowed = 1e-12;
      to.push_back({plan::OpKind::copy, size_text(t, 30, n), a, {x}, {y}});
    }
}

void swap(Random& random, std::vector<OpCase>& to) {
  for (const int64_t n : {1, 63, 4100}) {
    const Operand x = normals(random, DType::f32, n), y = normals(random, DType::f32, n);
    to.push_back({plan::OpKind::swap,
                  size_text(DType::f32, 1, n),
                  plan::ElementsAttrs{.count = n},
                  {x, y},
                  {in_place(0, x, y.before, 1e-12), in_place(1, y, x.before, 1e-12)}});
  }
}

Operand indices(Random& random, int64_t n, int64_t from, int64_t below) {
  Numbers is(static_cast<size_t>(n));
  for (double& i : is) i = static_cast<double>(random.integer(from, below - 1));
  return {.type = DType::i32, .before = std::move(is)};
}

// Base, one table or two; an index below 0 adds nothing
void gather(Random& random, std::vector<OpCase>& to) {
  const int64_t batch = 2, rows = 13, table_rows = 9, table2_rows = 4;
  for (const DType act : kActs)
    for (const int64_t cols : {1, 24, 65})
      for (const int tables : {1, 2})
        for (const bool has_base : {false, true}) {
          const Operand base = has_base ? normals(random, act, batch * rows * cols) : Operand{},
                        table = normals(random, act, batch * table_rows * cols),
                        index = indices(random, rows, -1, table_rows),
                        table2 = normals(random, act, batch * table2_rows * cols),
                        index2 = indices(random, rows, -1, table2_rows);
          Numbers y(static_cast<size_t>(batch * rows * cols));
          const auto add = [&](const Operand& of, const Operand& by, int64_t held) {
            for (int64_t b = 0; b < batch; ++b)
              for (int64_t r = 0; r < rows; ++r)
                for (int64_t j = 0; j < cols && by.before[r] >= 0; ++j)
                  y[(b * rows + r) * cols + j] +=
                      of.before[(b * held + static_cast<int64_t>(by.before[r])) * cols + j];
          };
          if (has_base) y = base.before;
          add(table, index, table_rows);
          if (tables == 2) add(table2, index2, table2_rows);
          OpCase c{
              plan::OpKind::gather,
              size_text(act, rows, cols) + " of " + std::to_string(tables) + (has_base ? " and a base" : ""),
              plan::IndexAttrs{.rows = batch * rows, .cols = cols, .batch = batch},
              {base, table, index},
              {written(act, y)}};
          if (tables == 2) c.reads.push_back(table2), c.reads.push_back(index2);
          to.push_back(std::move(c));
        }
}

// Some segments are empty
void segment_sum(Random& random, std::vector<OpCase>& to) {
  const int64_t batch = 2, rows = 17, segments = 6;
  for (const DType act : kActs)
    for (const int64_t cols : {1, 24, 65})
      for (const bool ordered : {false, true}) {
        const Operand x = normals(random, act, batch * rows * cols);
        Operand offsets{.type = DType::i32, .before = {0, 0, 3, 4, 11, 17, 17}};
        Operand order{.type = DType::i32};
        for (int64_t r = 0; r < rows && ordered; ++r)
          order.before.push_back(static_cast<double>((r * 5) % rows));
        Numbers y(static_cast<size_t>(batch * segments * cols));
        for (int64_t b = 0; b < batch; ++b)
          for (int64_t s = 0; s < segments; ++s)
            for (auto i = static_cast<int64_t>(offsets.before[s]);
                 i < static_cast<int64_t>(offsets.before[s + 1]); ++i)
              for (int64_t j = 0; j < cols; ++j) {
                const int64_t row = ordered ? static_cast<int64_t>(order.before[i]) : i;
                y[(b * segments + s) * cols + j] += x.before[(b * rows + row) * cols + j];
              }
        to.push_back({plan::OpKind::segment_sum,
                      size_text(act, rows, cols) + (ordered ? " in an order" : ""),
                      plan::IndexAttrs{.rows = batch * rows, .cols = cols, .batch = batch},
                      {x, offsets, order},
                      {written(act, y)}});
      }
}

}  // namespace

void add_move_cases(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  if (kind == plan::OpKind::zero) zero(random, to);
  if (kind == plan::OpKind::cast) cast(random, to);
  if (kind == plan::OpKind::copy) copy(random, to);
  if (kind == plan::OpKind::swap) swap(random, to);
  if (kind == plan::OpKind::gather) gather(random, to);
  if (kind == plan::OpKind::segment_sum) segment_sum(random, to);
}

}  // namespace isobar::testing
