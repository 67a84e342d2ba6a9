// Numeric element types of files, and the CF packing that turns them into physical values.
//
//   Packing p{.scale = 0.01, .offset = 273.15};
//   p.missing[0] = -32767;
//   int64_t bad = unpack(raw, Element::i16, n, p, out);   // out = raw * scale + offset; -1: none missing
#pragma once
#include <array>
#include <cstdint>
#include <limits>

namespace isobar::data {

enum class Element : uint8_t { i8, u8, i16, u16, i32, u32, i64, u64, f32, f64, f16 };

int64_t size_of(Element e);  // bytes
const char* name_of(Element e);
/// The number at p as f64, which holds fill values of every type exactly.
double as_double(const void* p, Element e);

/// The integer type of the same bits with a sign or without; other types as they are.
Element other_sign(Element e);
/// The integer that the low bits of x are in this type: -1 is 255 in u8.
double in_range_of(Element e, double x);

struct Packing {
  static constexpr double none =
      std::numeric_limits<double>::quiet_NaN();  // NaN equals nothing, so it marks "unused"
  double scale = 1, offset = 0;
  std::array<double, 4> missing = {none, none, none, none};  // packed values that mean "no data"
  double lowest = -std::numeric_limits<double>::infinity();  // valid_range, in packed values
  double highest = std::numeric_limits<double>::infinity();
  bool flips_sign = false;  // the bits are of the type other_sign()
  /// True when some value means "no data"
  bool marks() const;
  bool marks_more() const;  // besides missing[0]
};

/// The physical value of a stored one, NaN for a missing one
double physical_value(double stored, Element element, const Packing& packing);

/// Unpacks n elements to f32, computing in double, and returns the index of the first missing element or -1;
/// a NaN in the file does not count as missing. `gaps`: missing elements become NaN and are not reported.
int64_t unpack(const void* raw, Element element, int64_t n, const Packing& packing, float* out,
               bool gaps = false);

/// Reverses the bytes of each of n elements of `size` bytes in place (a file of the other endianness).
void swap_bytes(void* data, int64_t n, int64_t size);

}  // namespace isobar::data
