// Matrix products by oneDNN: its primitive or dnnl_sgemm, whichever is faster. bf16 without bf16
// instructions, f16 and tf32 are emulated by f32 products of rounded values, rounded at the same points.
#include <oneapi/dnnl/dnnl.hpp>

#include <array>
#include <bit>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

#include "model/backend/cpu/cpu_ops.h"
#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {
namespace {

using Memory = dnnl::memory;

dnnl::engine& engine() {
  static dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

bool is_bf16(const Gemm& g) {
  return g.a == DType::bf16;
}
bool mode_is(std::string_view mode) {
  return bf16_mode() == mode;
}
// oneDNN's AMX kernel sets up no tiles for k = 63, and crashes with SIGILL or uses other tiles' sums: seen
// with 2.6.3, reported for 2.7.3 (oneDNN issue 1661). 1-62 and 64-330 are right.
bool miscomputed(const Gemm& g) {
  return is_bf16(g) && g.k == 63 && mode_is("amx");
}
bool emulated(const Gemm& g) {
  return (is_bf16(g) && mode_is("emulated")) || g.a == DType::f16 || g.tf32 || miscomputed(g);
}

Memory::data_type type_of(DType t) {
  return t == DType::f32 ? Memory::data_type::f32 : Memory::data_type::bf16;
}

// The library has its own word for memory that ran out.
[[noreturn]] void fail(dnnl_status_t status, const std::string& what) {
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  throw std::runtime_error("oneDNN " + what + ": status " + std::to_string(status));
}
template <class F>
auto by_library(const F& f) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    fail(e.status, e.what());
  }
}

// Rows and columns of C that one thread computes. `of` has their sizes; a line of A, B and C is as long as
// in the whole product.
struct Block {
  Gemm of;
  int64_t ld_a, ld_b, ld_c;
};

Block whole_of(const Gemm& g) {
  return {g, g.trans_a ? g.m : g.k, g.trans_b ? g.k : g.n, g.n};
}

// [rows, cols], stored transposed or not
Memory::desc matrix(int64_t rows, int64_t cols, bool transposed, int64_t ld, DType t) {
  return {{rows, cols}, type_of(t), transposed ? Memory::dims{1, ld} : Memory::dims{ld, 1}};
}

dnnl::matmul::primitive_desc described(const Block& block) {
  const Gemm& g = block.of;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops after;
#if DNNL_VERSION_MAJOR >= 3
  if (g.scale != 1) after.append_eltwise(dnnl::algorithm::eltwise_linear, g.scale, 0.0f);
#else
  if (g.scale != 1) after.append_eltwise(1.0f, dnnl::algorithm::eltwise_linear, g.scale, 0.0f);
#endif
  if (g.accumulate) after.append_sum(1.0f);
  if (after.len() > 0) attributes.set_post_ops(after);
  const Memory::desc a = matrix(g.m, g.k, g.trans_a, block.ld_a, g.a);
  const Memory::desc b = matrix(g.k, g.n, g.trans_b, block.ld_b, g.b);
  const Memory::desc c = matrix(g.m, g.n, false, block.ld_c, g.c);
  const Memory::desc bias = matrix(1, g.n, false, g.n, DType::f32);
#if DNNL_VERSION_MAJOR >= 3
  if (g.bias) return {engine(), a, b, bias, c, attributes};
  return {engine(), a, b, c, attributes};
#else
  if (g.bias) return {dnnl::matmul::desc(a, b, bias, c), attributes, engine()};
  return {dnnl::matmul::desc(a, b, c), attributes, engine()};
#endif
}

dnnl::matmul::primitive_desc describe(const Block& block) {
  return by_library([&] { return described(block); });
}

// A compiled product with reusable memory objects
class Product {
 public:
  explicit Product(const Block& b) : Product(b.of, describe(b)) {}

  void run(const void* a, const void* b, const float* bias, void* c, dnnl::stream& stream) {
    a_.set_data_handle(const_cast<void*>(a));
    b_.set_data_handle(const_cast<void*>(b));
    c_.set_data_handle(c);
    if (has_bias_) bias_.set_data_handle(const_cast<float*>(bias));
    scratchpad_.set_data_handle(scratch((scratchpad_bytes_ + 3) / 4));
    primitive_.execute(stream, arguments_);
    stream.wait();
  }

 private:
  Product(const Gemm& g, const dnnl::matmul::primitive_desc& d)
      : primitive_(d),
        a_(d.src_desc(), engine(), nullptr),
        b_(d.weights_desc(), engine(), nullptr),
        c_(d.dst_desc(), engine(), nullptr),
        scratchpad_(d.scratchpad_desc(), engine(), nullptr),
        has_bias_(g.bias),
        scratchpad_bytes_(static_cast<int64_t>(d.scratchpad_desc().get_size())) {
    arguments_ = {
        {DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}, {DNNL_ARG_SCRATCHPAD, scratchpad_}};
    if (g.bias) {
      bias_ = Memory(matrix(1, g.n, false, g.n, DType::f32), engine(), nullptr);
      arguments_.insert({DNNL_ARG_BIAS, bias_});
    }
  }

  dnnl::matmul primitive_;
  Memory a_, b_, c_, scratchpad_, bias_;
  bool has_bias_;
  int64_t scratchpad_bytes_;
  std::unordered_map<int, Memory> arguments_;
};

// oneDNN plans for a number of threads, so that is part of the key
using Key = std::array<int64_t, 8>;
struct HashKey {
  size_t operator()(const Key& k) const {
    uint64_t h = 0;
    for (const int64_t x : k) h = (h ^ static_cast<uint64_t>(x)) * 0x9e3779b97f4a7c15u + (h >> 29);
    return h;
  }
};

Key key_of(const Block& b) {
  const Gemm& g = b.of;
  int64_t flags = omp_get_max_threads();
  for (const bool bit : {g.trans_a, g.trans_b, g.a == DType::f32, g.c == DType::f32, g.bias, g.accumulate})
    flags = flags * 2 + bit;
  return {g.m, g.n, g.k, b.ld_a, b.ld_b, b.ld_c, flags, std::bit_cast<int32_t>(g.scale)};
}

// Threads over the rows and the columns of C
struct Grid {
  int rows = 1, cols = 1;
  int threads() const { return rows * cols; }
};

// The grid whose threads read the least of A and B, each of which packs what it reads; 1 by 1 where blocks
// would be small, and the library's own threads then work.
Grid grid_of(const Gemm& g) {
  constexpr int64_t kSide = 64, kProducts = 1 << 18;
  const int threads = omp_get_max_threads();
  Grid best;
  if (g.m * g.n * g.k < kProducts * threads) return best;
  const auto read = [&](const Grid& to) { return g.m / to.rows + g.n / to.cols; };
  for (int cols = 1; cols <= threads; ++cols) {
    const Grid to{threads / cols, cols};
    if (to.threads() != threads) continue;
    if ((to.rows > 1 && g.m < kSide * to.rows) || (cols > 1 && g.n < kSide * cols)) continue;
    if (best.threads() == 1 || read(to) < read(best)) best = to;
  }
  return best;
}

// run(block, a, b, bias, c): the whole, or each thread's block
template <class Run>
void by_blocks(const Gemm& g, const void* a, const void* b, const float* bias, void* c, const Run& run) {
  const Grid grid = grid_of(g);
  if (grid.threads() == 1) return run(whole_of(g), a, b, bias, c);
  const auto run_one = [&](int i) {
    const Range rows = share(g.m, i / grid.cols, grid.rows, 16);
    const Range cols = share(g.n, i % grid.cols, grid.cols, 16);
    Block block = whole_of(g);
    block.of.m = rows.end - rows.begin, block.of.n = cols.end - cols.begin;
    run(block, static_cast<const std::byte*>(a) + rows.begin * (g.trans_a ? 1 : g.k) * size_of(g.a),
        static_cast<const std::byte*>(b) + cols.begin * (g.trans_b ? g.k : 1) * size_of(g.b),
        bias == nullptr ? nullptr : bias + cols.begin,
        static_cast<std::byte*>(c) + (rows.begin * g.n + cols.begin) * size_of(g.c));
  };
  on_threads(grid.threads(), [&](int t, int threads) {
    omp_set_num_threads(1);  // for the library's own teams within this one
    for (int i = t; i < grid.threads(); i += threads) run_one(i);
  });
}

// Each thread has its own products, so no lock is needed.
void run_primitive(const Block& block, const void* a, const void* b, const float* bias, void* c) {
  by_library([&] {
    thread_local std::unordered_map<Key, std::unique_ptr<Product>, HashKey> products;
    thread_local dnnl::stream stream(engine());
    std::unique_ptr<Product>& product = products[key_of(block)];
    if (product == nullptr) product = std::make_unique<Product>(block);
    product->run(a, b, bias, c, stream);
  });
}

void run_sgemm(const Block& block, const void* a, const void* b, void* c) {
  const Gemm& g = block.of;
  const dnnl_status_t status =
      dnnl_sgemm(g.trans_a ? 'T' : 'N', g.trans_b ? 'T' : 'N', g.m, g.n, g.k, g.scale,
                 static_cast<const float*>(a), block.ld_a, static_cast<const float*>(b), block.ld_b,
                 g.accumulate || g.bias ? 1.0f : 0.0f, static_cast<float*>(c), block.ld_c);
  if (status != dnnl_success) fail(status, "cannot multiply by dnnl_sgemm");
}

// C[m, n] (+)= bias
void prefill_bias(const Gemm& g, const float* bias, float* c) {
  const KernelTable& k = kernels();
  parallel(g.m * g.n, [&](int t, int threads) {
    const Range rows = share(g.m, t, threads);
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      if (g.accumulate)
        k.add(g.n, bias, c + i * g.n);
      else
        std::copy_n(bias, g.n, c + i * g.n);
    }
  });
}

void run_f32(const Gemm& g, const float* a, const float* b, const float* bias, float* c) {
  if (g.bias) prefill_bias(g, bias, c);
  by_blocks(g, a, b, bias, c, [](const Block& block, const void* a, const void* b, const float*, void* c) {
    run_sgemm(block, a, b, c);
  });
}

bool small_linear(const Gemm& g) {
  return g.a == DType::f32 && !g.tf32 && g.bias && !g.accumulate && g.scale == 1 && !g.trans_a && g.trans_b &&
         takes_layer(g.m, g.n, g.k);
}

int64_t emulation_floats(const Gemm& g) {
  return g.m * g.k + g.k * g.n + (g.c == DType::f32 ? 0 : g.m * g.n);
}

void run_emulated(const Gemm& g, const void* a, const void* b, const float* bias, void* c) {
  thread_local std::unique_ptr<float[]> buffer;
  thread_local int64_t size = 0;
  if (size < emulation_floats(g)) {
    buffer.reset();
    buffer.reset(new float[emulation_floats(g)]);
    size = emulation_floats(g);
  }
  float* a32 = buffer.get();
  float* b32 = a32 + g.m * g.k;
  float* c32 = g.c == DType::f32 ? static_cast<float*>(c) : b32 + g.k * g.n;
  const auto widen = [&](int64_t n, DType from, const void* x, float* y) {
    if (g.tf32)
      round_tf32(n, static_cast<const float*>(x), y);
    else
      cast(n, from, DType::f32, x, y);
  };
  widen(g.m * g.k, g.a, a, a32);
  widen(g.k * g.n, g.b, b, b32);
  if (g.accumulate && g.c != DType::f32) cast(g.m * g.n, g.c, DType::f32, c, c32);
  Gemm widened = g;
  widened.a = widened.b = widened.c = DType::f32;
  run_f32(widened, a32, b32, bias, c32);
  if (g.c != DType::f32) cast(g.m * g.n, DType::f32, g.c, c32, c);
}

}  // namespace

void gemm(const Gemm& g, const void* A, const void* B, const float* bias, void* C) {
  if (small_linear(g)) {
    const Layer one{g.n, g.k, static_cast<const float*>(B), bias, {}};
    layers(g.m, {&one, 1}, static_cast<const float*>(A), static_cast<float*>(C));
  } else {
    gemm_by_library(g, A, B, bias, C);
  }
}

void gemm_by_library(const Gemm& g, const void* A, const void* B, const float* bias, void* C) {
  if (g.bias && g.scale != 1) throw std::logic_error("a scaled product has no bias");
  prepare_threads();
  if (emulated(g)) {
    run_emulated(g, A, B, bias, C);
  } else if (is_bf16(g)) {
    by_blocks(g, A, B, bias, C, run_primitive);
  } else {
    run_f32(g, static_cast<const float*>(A), static_cast<const float*>(B), bias, static_cast<float*>(C));
  }
}

std::string gemm_kernel(const Gemm& g) {
  const dnnl_version_t* v = dnnl_version();
  const std::string library =
      "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
  if (emulated(g)) return library + ", sgemm of rounded operands";
  if (small_linear(g)) return std::string("own, ") + name_of(current_isa());
  return library + ", " + (is_bf16(g) ? describe(whole_of(g)).impl_info_str() : "sgemm") +
         (grid_of(g).threads() > 1 ? " of each thread's block" : "");
}

int64_t gemm_workspace(const Gemm& g) {
  if (emulated(g)) return emulation_floats(g) * static_cast<int64_t>(sizeof(float));
  if (!is_bf16(g)) return 0;
  const Grid grid = grid_of(g);
  Block largest = whole_of(g);
  largest.of.m = (g.m + grid.rows - 1) / grid.rows, largest.of.n = (g.n + grid.cols - 1) / grid.cols;
  return grid.threads() * static_cast<int64_t>(describe(largest).scratchpad_desc().get_size());
}

// ---- ops ----

Gemm gemm_of(const plan::Op& op, const plan::Plan& plan) {
  constexpr plan::OpKind kGemm = plan::OpKind::gemm;
  const auto& a = op.as<plan::GemmAttrs>();
  const auto type = [&](const plan::View& v) { return plan.buffers[v.buffer].dtype; };
  return {a.m,
          a.n,
          a.k,
          a.trans_a,
          a.trans_b,
          type(plan::in<kGemm>(op, "A")),
          type(plan::in<kGemm>(op, "B")),
          type(plan::out<kGemm>(op, "C")),
          static_cast<bool>(plan::in<kGemm>(op, "bias")),
          a.accumulate,
          a.tf32,
          a.scale};
}

namespace {

void run_gemm(const CpuCall<plan::OpKind::gemm>& c) {
  gemm(gemm_of(c.op, c.memory().plan()), c.in("A"), c.in("B"), c.in("bias"), c.out("C"));
}

}  // namespace

CpuRows gemm_ops() {
  static constexpr CpuRow kRows[] = {row<run_gemm>};
  return kRows;
}

}  // namespace isobar::cpu
