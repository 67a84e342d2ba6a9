// Shared by the kernel tests: buffers that begin as NaN, random numbers with a printed seed, the instruction
// sets to try, and comparison within an error bound per element.
#pragma once
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/isa/kernels.h"

namespace isobar::cpu::testing {

constexpr double kHalfRoundoff = 1.0 / 256;  // bf16: 8 significant bits, half a unit in the last place
constexpr double kFloatRoundoff = 1.0 / (1 << 24);
constexpr double kF16Roundoff = 1.0 / 2048;  // f16 and tf32: 11 significant bits

// Types of activations
constexpr std::initializer_list<DType> kActs = {DType::f32, DType::bf16, DType::f16};
constexpr std::initializer_list<Activation> kFunctions = {
    Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::silu, Activation::tanh};

inline double roundoff(DType t) {
  return t == DType::bf16 ? kHalfRoundoff : t == DType::f16 ? kF16Roundoff : kFloatRoundoff;
}

// n elements, 64-byte aligned, every byte 0xff: NaN in f32, bf16 and f16
class Buffer {
 public:
  Buffer(DType t, int64_t n) : type_(t), n_(n), storage_(bytes() + 2 * kAlign, static_cast<char>(0xff)) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    offset_ = static_cast<int64_t>((kAlign - address % kAlign) % kAlign);
  }
  // moving keeps the heap block, so the offset stays valid; copying would not
  Buffer(Buffer&&) = default;
  Buffer(const Buffer&) = delete;
  int64_t size() const { return n_; }
  int64_t bytes() const { return n_ * size_of(type_); }
  DType type() const { return type_; }
  void* data() { return storage_.data() + offset_; }
  const void* data() const { return storage_.data() + offset_; }
  float* f32() { return static_cast<float*>(data()); }
  const float* f32() const { return static_cast<const float*>(data()); }
  double operator[](int64_t i) const {
    if (type_ == DType::f32) return f32()[i];
    if (type_ == DType::f16) return to_float(static_cast<const f16*>(data())[i]);
    return to_float(static_cast<const bf16*>(data())[i]);
  }
  void set(int64_t i, double x) {
    if (type_ == DType::f32)
      f32()[i] = static_cast<float>(x);
    else if (type_ == DType::f16)
      static_cast<f16*>(data())[i] = to_f16(static_cast<float>(x));
    else
      static_cast<bf16*>(data())[i] = to_bf16(static_cast<float>(x));
  }
  // True if nothing was written past the end
  bool intact() const {
    for (int64_t i = offset_ + bytes(); i < static_cast<int64_t>(storage_.size()); ++i)
      if (storage_[i] != static_cast<char>(0xff)) return false;
    return true;
  }
  bool same_bits(const Buffer& o) const {
    return bytes() == o.bytes() && std::memcmp(data(), o.data(), bytes()) == 0;
  }

 private:
  static constexpr int64_t kAlign = 64;
  DType type_;
  int64_t n_;
  std::vector<char> storage_;
  int64_t offset_ = 0;
};

// A new seed each run; ISOBAR_TEST_SEED repeats one.
class Random {
 public:
  Random()
      : seed_(pick()),
        engine_(seed_),
        trace_(__FILE__, __LINE__, "ISOBAR_TEST_SEED=" + std::to_string(seed_)) {}
  double normal(double scale = 1) { return scale * std::normal_distribution<double>()(engine_); }
  int64_t integer(int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(engine_);
  }
  bool coin() { return integer(0, 1) == 1; }
  DType act() { return one_of(kActs); }
  template <class T>
  T one_of(std::initializer_list<T> options) {
    return options.begin()[integer(0, static_cast<int64_t>(options.size()) - 1)];
  }
  Buffer buffer(DType t, int64_t n, double scale = 1, double mean = 0) {
    Buffer b(t, n);
    for (int64_t i = 0; i < n; ++i) b.set(i, mean + normal(scale));
    return b;
  }

 private:
  static uint64_t pick() {
    const char* fixed = std::getenv("ISOBAR_TEST_SEED");
    return fixed == nullptr ? std::random_device()() : std::strtoull(fixed, nullptr, 10);
  }
  uint64_t seed_;
  std::mt19937_64 engine_;
  ::testing::ScopedTrace trace_;
};

inline std::vector<Isa> isas() {
  std::vector<Isa> all;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx})
    if (isa <= best_isa()) all.push_back(isa);
  return all;
}

// Runs the enclosing scope with an instruction set and a number of threads
class Running {
 public:
  Running(Isa isa, int threads)
      : threads_before_(omp_get_max_threads()),
        trace_(__FILE__, __LINE__, std::string(name_of(isa)) + ", threads " + std::to_string(threads)) {
    use_isa(isa);
    omp_set_num_threads(threads);
  }
  ~Running() {
    use_isa(best_isa());
    omp_set_num_threads(threads_before_);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  int threads_before_;
  ::testing::ScopedTrace trace_;
};

// |got - want| <= bound, and got is a number
inline ::testing::AssertionResult within(double got, double want, double bound) {
  if (std::abs(got - want) <= bound) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "got " << got << ", want " << want << ", off by "
                                       << std::abs(got - want) << ", allowed " << bound;
}

// Error that storing x as t may add
inline double rounding(DType t, double x) {
  return std::abs(x) * roundoff(t) + (t == DType::f16 ? 0x1p-25 : 1e-37);  // f16: half of the smallest
}

}  // namespace isobar::cpu::testing
