// Sizes and settings of ops' kernels that the CPU's and the GPU's share. `act`: type of activations.
#pragma once
#include <array>
#include <cstdint>

#include "model/base/dtype.h"
#include "model/base/token_runs.h"

namespace isobar::shapes {

struct ResidualNorm {
  int64_t rows, cols;
  float eps;
  int64_t period;  // residual row of row r is (row0 + r) % period (learned positions); 0 = r itself
  DType act;
  int64_t row0 = 0;
  DType stream = DType::f32;  // of residual, x and dx: f32, or act
};

struct RmsNorm {
  int64_t rows, cols;
  float eps;
  DType act, stream;  // stream: of residual, x and dx: f32, or act
  // Rows side by side, and elements between lines of them in x (residual, dx) and in h (dh)
  int64_t heads = 1, ld_x = cols, ld_h = cols;
  int64_t in_x(int64_t row) const { return place(row, ld_x); }
  int64_t in_h(int64_t row) const { return place(row, ld_h); }

 private:
  int64_t place(int64_t row, int64_t ld) const {
    return heads == 1 ? row * ld : row / heads * ld + row % heads * cols;
  }
};

struct Rotary {
  int64_t rows, cols, ld;  // the first cols of each row of ld are heads
  int64_t d, tokens;       // of a head, even; row r is at position r % tokens
  DType act;
};

struct LatentHeads {
  int64_t rows, heads, nope, rope, v;  // columns of a head: nope + rope of queries and keys, v of values
  int64_t ld_key, tokens;              // row r is at position r % tokens
  DType act;
  int64_t qk() const { return nope + rope; }
};

struct Embedding {
  int64_t rows, cols;
  int64_t first, words;  // the table's first word, and their number; other words' rows are 0
  TokenRuns tokens;      // row r is at position tokens.place(r % tokens.size())
  DType table, act;
};
struct AddsTo {
  bool table, positions;
};

struct Route {
  int64_t rows, experts, top;  // top: experts of a row
  int64_t tokens, sample;      // rows of a sample, and its tokens on all ranks
  bool normalised;             // weights of a row sum to `factor`
  float balance = 0, z = 0;    // backward: factors of the losses of a sample, of a token
  float factor = 1;
  bool sigmoid = false;  // scores are sigmoids of the logits, not a softmax
  // Rows choose among the top_groups groups whose two best experts have the largest sums.
  int64_t groups = 1, top_groups = 1;
  int64_t capacity = 0;      // copies of a sample that an expert takes, the first ones; 0: all
  int64_t ranks_before = 0;  // that hold earlier rows of the samples
};
// Routing of rows by their logits [rows, experts]. Copies are sorted by expert, of one expert by row, and
// those that no expert takes come behind all others, in the same order; rows choose larger logits first, of
// equal ones the first.
struct Routing {
  int32_t* order = nullptr;    // [copies] row of a copy
  int32_t* place = nullptr;    // [rows, top] copy of a row's choice
  int32_t* chosen = nullptr;   // [rows, top] its expert
  int32_t* offsets = nullptr;  // [experts + 1] first copy of an expert; backward: null if all are taken
  float* weights = nullptr;    // [copies]
  float* lse = nullptr;        // [rows] log of the sum of exponentials, or of sigmoids
  float* sums = nullptr;       // [samples, 2, experts]: copies, sums of probabilities
};

struct Gather {
  int64_t batch, rows, cols;  // rows: of a sample, as in the tables
  int64_t table_rows, table2_rows;
  DType act, base;  // of the tables and y; of the base: act or f32
};
struct SegmentSum {
  int64_t batch, rows, cols, segments;  // rows and segments of a sample
  DType act;
};

struct Copy {  // y[i,j,k, 0:n] = x[i,j,k, 0:n] for i, j, k below extent; strides in elements of t
  std::array<int64_t, 3> extent, from, to;
  int64_t n;
  DType t;
};

// A rank may hold only `rows` of the batch*tokens rows, from row0 on; a sample's rows are its tokens from
// token0 on, row-major over the image's patches.
struct Patch {
  int64_t batch, channels, height, width, p;
  DType act;
  int64_t token0, tokens, row0, rows;
};
/// Roll-out: a Patch's channels are `history` times, oldest first; the first `predicted` channels of each are
/// predicted, in `type`.
struct Roll {
  int64_t predicted, history;
  DType type;
};

struct Classes {
  int64_t rows, cols;
  DType act = DType::f32, labels = DType::f32;  // labels: i32 or whole numbers in f32
  int64_t column0 = 0;  // class of the first column; labels of other classes add nothing
  int64_t padding = 0;  // last columns that are no classes: their gradient is 0
  int64_t tokens = 1;   // rows of a sample
};

}  // namespace isobar::shapes
