// Heads of latent attention: threads own rows. The rotary parts are computed in f32, the others moved.
#include <algorithm>
#include <cstring>

#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {
namespace {

// One row's moves between operands, in elements of the activations
class LatentRow {
 public:
  explicit LatentRow(const LatentHeads& p)
      : p_(p), size_(size_of(p.act)), sum_(scratch(2 * p.rope)), one_(sum_ + p.rope) {}

  void move(const void* x, int64_t from, void* y, int64_t to, int64_t n) const {
    std::memcpy(at(y, to), at(x, from), static_cast<size_t>(n * size_));
  }
  void clear(void* y, int64_t to, int64_t n) const {
    std::memset(at(y, to), 0, static_cast<size_t>(n * size_));
  }
  void begin_sum() { std::fill_n(sum_, p_.rope, 0.0f); }
  void add(const void* x, int64_t from) {
    kernels().cast[of(p_.act)][of(DType::f32)](p_.rope, at(x, from), one_);
    kernels().add(p_.rope, one_, sum_);
  }
  // Turned by the angles of a position, backwards with sign -1
  void turn(const float* table, float sign, void* y, int64_t to) {
    const int64_t half = p_.rope / 2;
    for (int64_t i = 0; i < half; ++i) {
      const float c = table[i], s = sign * table[half + i], a = sum_[i], b = sum_[half + i];
      sum_[i] = a * c - b * s, sum_[half + i] = b * c + a * s;
    }
    kernels().cast[of(DType::f32)][of(p_.act)](p_.rope, sum_, at(y, to));
  }

 private:
  const char* at(const void* x, int64_t i) const { return static_cast<const char*>(x) + i * size_; }
  char* at(void* x, int64_t i) const { return static_cast<char*>(x) + i * size_; }
  const LatentHeads& p_;
  const int64_t size_;
  float *const sum_, *const one_;
};

template <class F>  // (row, its angles, its moves)
void each_row(const LatentHeads& p, const float* table, const F& f) {
  parallel(p.rows * p.heads * p.qk() * 3, [&](int t, int threads) {
    const Range mine = share(p.rows, t, threads);
    LatentRow moves(p);
    for (int64_t r = mine.begin; r < mine.end; ++r) f(r, table + r % p.tokens * p.rope, moves);
  });
}

}  // namespace

void latent_heads(const LatentHeads& p, const float* table, const void* q, const void* kv, const void* key,
                  void* qkv) {
  const int64_t d = p.qk(), width = p.heads * d;
  each_row(p, table, [&](int64_t r, const float* angles, LatentRow& row) {
    const int64_t to_q = r * 3 * width, to_k = to_q + width, to_v = to_k + width;
    for (int64_t h = 0; h < p.heads; ++h) {
      const int64_t of_q = r * width + h * d, of_kv = (r * p.heads + h) * (p.nope + p.v);
      row.move(q, of_q, qkv, to_q + h * d, p.nope);
      row.begin_sum();
      row.add(q, of_q + p.nope);
      row.turn(angles, 1, qkv, to_q + h * d + p.nope);
      row.move(kv, of_kv, qkv, to_k + h * d, p.nope);
      row.move(kv, of_kv + p.nope, qkv, to_v + h * d, p.v);
      row.clear(qkv, to_v + h * d + p.v, d - p.v);
    }
    row.begin_sum();
    row.add(key, r * p.ld_key);
    row.turn(angles, 1, qkv, to_k + p.nope);
    for (int64_t h = 1; h < p.heads; ++h) row.move(qkv, to_k + p.nope, qkv, to_k + h * d + p.nope, p.rope);
  });
}

void latent_heads_backward(const LatentHeads& p, const float* table, const void* dqkv, void* dq, void* dkv,
                           void* dkey) {
  const int64_t d = p.qk(), width = p.heads * d;
  each_row(p, table, [&](int64_t r, const float* angles, LatentRow& row) {
    const int64_t of_q = r * 3 * width, of_k = of_q + width, of_v = of_k + width;
    for (int64_t h = 0; h < p.heads; ++h) {
      const int64_t to_q = r * width + h * d, to_kv = (r * p.heads + h) * (p.nope + p.v);
      row.move(dqkv, of_q + h * d, dq, to_q, p.nope);
      row.begin_sum();
      row.add(dqkv, of_q + h * d + p.nope);
      row.turn(angles, -1, dq, to_q + p.nope);
      row.move(dqkv, of_k + h * d, dkv, to_kv, p.nope);
      row.move(dqkv, of_v + h * d, dkv, to_kv + p.nope, p.v);
    }
    row.begin_sum();
    for (int64_t h = 0; h < p.heads; ++h) row.add(dqkv, of_k + h * d + p.nope);
    row.turn(angles, -1, dkey, r * p.ld_key);
  });
}

}  // namespace isobar::cpu
