#include "model/inference/weights/stored_type.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "model/base/dtype.h"

namespace isobar::inference {
namespace {

using Kind = StoredType::Kind;

constexpr std::array<StoredType, 22> kTypes{{
    {"BOOL", 8, Kind::integer},         {"F4", 4, Kind::other},
    {"F6_E2M3", 6, Kind::other},        {"F6_E3M2", 6, Kind::other},
    {"U8", 8, Kind::integer},           {"I8", 8, Kind::integer},
    {"F8_E5M2", 8, Kind::floating},     {"F8_E4M3", 8, Kind::floating},
    {"F8_E8M0", 8, Kind::other},        {"F8_E4M3FNUZ", 8, Kind::floating},
    {"F8_E5M2FNUZ", 8, Kind::floating}, {"I16", 16, Kind::integer},
    {"U16", 16, Kind::integer},         {"F16", 16, Kind::floating},
    {"BF16", 16, Kind::floating},       {"I32", 32, Kind::integer},
    {"U32", 32, Kind::integer},         {"F32", 32, Kind::floating},
    {"C64", 64, Kind::other},           {"F64", 64, Kind::floating},
    {"I64", 64, Kind::integer},         {"U64", 64, Kind::integer},
}};

/// Decodes a byte of sign, exponent and `fraction` bits. FNUZ types have no infinity, and use the bits of -0
/// for NaN.
float of_byte(uint8_t x, int fraction, int bias, bool fnuz) {
  const int exponents = 7 - fraction, exponent = (x & 0x7f) >> fraction, part = x & ((1 << fraction) - 1);
  const float sign = (x & 0x80) != 0 ? -1.0f : 1.0f;
  if (fnuz && x == 0x80) return std::numeric_limits<float>::quiet_NaN();
  if (!fnuz && fraction == 3 && (x & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  if (!fnuz && fraction == 2 && exponent == (1 << exponents) - 1)
    return part == 0 ? sign * std::numeric_limits<float>::infinity()
                     : std::numeric_limits<float>::quiet_NaN();
  const float significand = static_cast<float>(part + (exponent > 0 ? 1 << fraction : 0));
  return sign * std::ldexp(significand, std::max(exponent, 1) - bias - fraction);
}

template <class Stored, class T, class Value>
void each(const std::byte* bytes, int64_t count, T* values, Value value) {
  for (int64_t i = 0; i < count; ++i) {
    Stored x;
    std::memcpy(&x, bytes + i * static_cast<int64_t>(sizeof x), sizeof x);
    values[i] = static_cast<T>(value(x));
  }
}

template <class T>
void convert_any(const StoredType& t, const std::byte* bytes, int64_t count, T* values) {
  const auto same = [](auto x) { return x; };
  const auto as_float = [](auto x) { return to_float(x); };
  const auto numbers = [&](auto zero) { each<decltype(zero)>(bytes, count, values, same); };
  const auto eight = [&](int fraction, int bias, bool fnuz) {
    each<uint8_t>(bytes, count, values, [&](uint8_t x) { return of_byte(x, fraction, bias, fnuz); });
  };
  if (t.name == "F32") return numbers(0.0f);
  if (t.name == "F64") return numbers(0.0);
  if (t.name == "BF16") return each<bf16>(bytes, count, values, as_float);
  if (t.name == "F16") return each<f16>(bytes, count, values, as_float);
  if (t.name == "F8_E4M3") return eight(3, 7, false);
  if (t.name == "F8_E5M2") return eight(2, 15, false);
  if (t.name == "F8_E4M3FNUZ") return eight(3, 8, true);
  if (t.name == "F8_E5M2FNUZ") return eight(2, 16, true);
  if (t.name == "BOOL" || t.name == "U8") return numbers(uint8_t{0});
  if (t.name == "I8") return numbers(int8_t{0});
  if (t.name == "I16") return numbers(int16_t{0});
  if (t.name == "U16") return numbers(uint16_t{0});
  if (t.name == "I32") return numbers(int32_t{0});
  if (t.name == "U32") return numbers(uint32_t{0});
  if (t.name == "I64") return numbers(int64_t{0});
  if (t.name == "U64") return numbers(uint64_t{0});
  throw std::logic_error("elements without a value of their own are converted");
}

}  // namespace

const StoredType* stored_type(std::string_view name) {
  const auto at =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const StoredType& t) { return t.name == name; });
  return at == kTypes.end() ? nullptr : &*at;
}

void convert(const StoredType& t, const std::byte* bytes, int64_t count, float* values) {
  convert_any(t, bytes, count, values);
}
void convert(const StoredType& t, const std::byte* bytes, int64_t count, double* values) {
  convert_any(t, bytes, count, values);
}

}  // namespace isobar::inference
