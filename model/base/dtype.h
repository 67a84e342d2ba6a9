// Element types of buffers, and bfloat16 conversion with round-to-nearest-even (what x86 and PyTorch do).
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

}  // namespace isobar
