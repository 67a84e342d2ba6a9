// Softmax of one row of logits, of which `largest` is the largest value. Included like rows.h, after it.

template <class V, DType kAct>
[[gnu::always_inline]] inline typename V::Reg exponential_of(typename V::Reg x, typename V::Reg largest) {
  const typename V::Reg power = V::mul(V::sub(x, largest), V::set1(1.44269504f));
  return exp2<V, degree_for(kAct)>(V::max(V::set1(-200.0f), power));  // operand order keeps NaN
}

// The largest of n values, -infinity for none; NaN if one is
template <class V, DType kAct>
float largest_of_row(int64_t n, const void* x) {
  using Reg = typename V::Reg;
  constexpr int W = V::kWidth;
  Reg most = V::set1(-std::numeric_limits<float>::infinity()), nan = V::zero();
  int64_t j = 0;
  for (; j + W <= n; j += W) {
    const Reg v = load_act<V, kAct>(x, j, W);
    most = V::max(v, most);  // operand order drops NaN, which the next line keeps
    nan = V::fma(V::min(V::set1(1.0f), V::max(V::set1(-1.0f), v)), V::zero(), nan);
  }
  float lanes[2 * W], out = -std::numeric_limits<float>::infinity();
  V::store(lanes, most);
  if (j < n) V::store(lanes + W, load_act<V, kAct>(x, j, n - j));
  bool unordered = std::isnan(V::sum(nan));
  for (int64_t i = 0; i < W + n - j; ++i) {
    out = lanes[i] > out ? lanes[i] : out;
    unordered |= std::isnan(lanes[i]);
  }
  return unordered ? std::numeric_limits<float>::quiet_NaN() : out;
}

// Sum of exp(x - largest), blocks of it in double precision
template <class V, DType kAct>
double exponentials_of_row(int64_t n, const void* x, float largest) {
  using Reg = typename V::Reg;
  constexpr int W = V::kWidth;
  constexpr int64_t kBlockSize = 1024;
  const Reg most = V::set1(largest);
  double sum = 0;
  int64_t j = 0;
  while (j + W <= n) {
    Reg part = V::zero();
    for (const int64_t end = std::min(n, j + kBlockSize); j + W <= end; j += W)
      part = V::add(part, exponential_of<V, kAct>(load_act<V, kAct>(x, j, W), most));
    sum += static_cast<double>(V::sum(part));
  }
  float lanes[W];
  if (j < n) V::store(lanes, exponential_of<V, kAct>(load_act<V, kAct>(x, j, n - j), most));
  for (int64_t i = 0; i < n - j; ++i) sum += static_cast<double>(lanes[i]);
  return sum;
}

// y = factor exp(x - largest); y may be x
template <class V, DType kAct>
void softmax_of_row(int64_t n, const void* x, float largest, float factor, void* y) {
  const typename V::Reg most = V::set1(largest), times = V::set1(factor);
  for_vectors<V>(
      n, [&](int64_t j, int64_t m) __attribute__((always_inline)) {
        store_act<V, kAct>(y, j, V::mul(times, exponential_of<V, kAct>(load_act<V, kAct>(x, j, m), most)), m);
      });
}
