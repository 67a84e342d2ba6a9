// Element types of buffers, and conversions with round-to-nearest-even (what x86, GPUs and PyTorch do).
//
//   to_f16(65520.0f)   // infinity: the largest finite f16 is 65504
//   to_f16(0x1p-26f)   // 0: the smallest is 2^-24
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

namespace isobar {

enum class DType : uint8_t { f32, bf16, f16, i32 };

constexpr int64_t size_of(DType t) {
  return t == DType::f32 || t == DType::i32 ? 4 : 2;
}
constexpr const char* name_of(DType t) {
  switch (t) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::i32:
      return "i32";
  }
  return "?";
}

struct bf16 {
  uint16_t bits;
};

inline float to_float(bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
inline bf16 to_bf16(float x) {
  uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40)};  // NaN stays NaN
  u += 0x7fffu + ((u >> 16) & 1u);
  return {static_cast<uint16_t>(u >> 16)};
}

struct f16 {  // IEEE half precision, by hand: not every compiler has a type for it here
  uint16_t bits;
};

inline float to_float(f16 x) {
  const uint32_t sign = (x.bits & 0x8000u) << 16, exponent = (x.bits >> 10) & 31u, mantissa = x.bits & 0x3ffu;
  if (exponent == 0) return (sign ? -1.0f : 1.0f) * static_cast<float>(mantissa) * 0x1p-24f;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}
inline f16 to_f16(float x) {
  uint32_t u = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (u >> 16) & 0x8000u;
  const auto with_sign = [sign](uint32_t magnitude) { return f16{static_cast<uint16_t>(sign | magnitude)}; };
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return with_sign(0x7e00u);   // NaN
  if (u >= 0x477ff000u) return with_sign(0x7c00u);  // rounds to infinity
  if (u < 0x38800000u)                              // subnormal: adding a constant rounds at its last bit
    return with_sign(std::bit_cast<uint32_t>(std::bit_cast<float>(u) + 0.5f) - 0x3f000000u);
  u += 0xc8000fffu + ((u >> 13) & 1u);  // exponent bias from 127 to 15, and half of the last bit
  return with_sign(u >> 13);
}

/// TF32, an f32 with 10 explicit bits of mantissa instead of 23: what NVIDIA's tensor cores make of f32
/// operands. Not a type of storage.
inline float round_tf32(float x) {
  uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return std::bit_cast<float>(u | 0x400000u);  // NaN stays NaN
  u += 0xfffu + ((u >> 13) & 1u);
  return std::bit_cast<float>(u & ~0x1fffu);
}

}  // namespace isobar
