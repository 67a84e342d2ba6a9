#include "model/data/files/element.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "model/base/dtype.h"

namespace isobar::data {

static_assert(std::endian::native == std::endian::little,
              "file bytes are decoded on a little-endian machine");

namespace {

struct Half {
  f16 stored;
  explicit operator double() const { return static_cast<double>(to_float(stored)); }
};

/// True when a packed value means "no data".
bool is_missing(double v, const Packing& p) {
  return v == p.missing[0] || v == p.missing[1] || v == p.missing[2] || v == p.missing[3] || v < p.lowest ||
         v > p.highest;
}

}  // namespace

int64_t size_of(Element e) {
  switch (e) {
    case Element::i8:
    case Element::u8:
      return 1;
    case Element::i16:
    case Element::u16:
    case Element::f16:
      return 2;
    case Element::i32:
    case Element::u32:
    case Element::f32:
      return 4;
    case Element::i64:
    case Element::u64:
    case Element::f64:
      return 8;
  }
  return 0;
}

const char* name_of(Element e) {
  constexpr const char* names[] = {"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64", "f16"};
  return names[static_cast<int>(e)];
}

double as_double(const void* p, Element e) {
  switch (e) {
    case Element::i8:
      return *static_cast<const int8_t*>(p);
    case Element::u8:
      return *static_cast<const uint8_t*>(p);
    case Element::i16:
      return *static_cast<const int16_t*>(p);
    case Element::u16:
      return *static_cast<const uint16_t*>(p);
    case Element::i32:
      return *static_cast<const int32_t*>(p);
    case Element::u32:
      return *static_cast<const uint32_t*>(p);
    case Element::i64:
      return static_cast<double>(*static_cast<const int64_t*>(p));
    case Element::u64:
      return static_cast<double>(*static_cast<const uint64_t*>(p));
    case Element::f32:
      return static_cast<double>(*static_cast<const float*>(p));
    case Element::f64:
      return *static_cast<const double*>(p);
    case Element::f16:
      return static_cast<double>(*static_cast<const Half*>(p));
  }
  return 0;
}

Element other_sign(Element e) {
  switch (e) {
    case Element::i8:
      return Element::u8;
    case Element::u8:
      return Element::i8;
    case Element::i16:
      return Element::u16;
    case Element::u16:
      return Element::i16;
    case Element::i32:
      return Element::u32;
    case Element::u32:
      return Element::i32;
    default:  // no double holds 64 bits
      return e;
  }
}

double in_range_of(Element e, double x) {
  const double all = std::ldexp(1, static_cast<int>(8 * size_of(e))),
               low = name_of(e)[0] == 'i' ? -all / 2 : 0;
  return x < low ? x + all : x >= low + all ? x - all : x;
}

double physical_value(double stored, Element element, const Packing& p) {
  const double x = p.flips_sign ? in_range_of(other_sign(element), stored) : stored;
  return is_missing(x, p) ? std::nan("") : x * p.scale + p.offset;
}

bool Packing::marks() const {
  return !std::isnan(missing[0]) || marks_more();
}

bool Packing::marks_more() const {
  return std::any_of(missing.begin() + 1, missing.end(), [](double m) { return !std::isnan(m); }) ||
         !std::isinf(lowest) || !std::isinf(highest);
}

namespace {

#define ISOBAR_ALWAYS_INLINE inline __attribute__((always_inline))

template <class T>
ISOBAR_ALWAYS_INLINE int64_t unpack_as(const T* raw, int64_t n, const Packing& p, float* out, bool gaps) {
  if (std::is_same_v<T, float> && p.scale == 1 && p.offset == 0) {
    if (static_cast<const void*>(raw) != out) std::memcpy(out, raw, n * sizeof(float));
  } else {
    for (int64_t i = 0; i < n; ++i)
      out[i] = static_cast<float>(static_cast<double>(raw[i]) * p.scale + p.offset);
  }
  if (!p.marks()) return -1;
  const Packing q = p;  // a copy that `out` cannot alias, so that the loop vectorises
  unsigned bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(raw[i]);
    bad |= static_cast<unsigned>(v == q.missing[0]) | static_cast<unsigned>(v == q.missing[1]) |
           static_cast<unsigned>(v == q.missing[2]) | static_cast<unsigned>(v == q.missing[3]) |
           static_cast<unsigned>(v < q.lowest) | static_cast<unsigned>(v > q.highest);
  }
  if (!bad) return -1;
  for (int64_t i = 0; i < n; ++i) {
    if (!is_missing(static_cast<double>(raw[i]), p)) continue;
    if (!gaps) return i;
    out[i] = std::numeric_limits<float>::quiet_NaN();
  }
  return -1;
}

ISOBAR_ALWAYS_INLINE int64_t unpack_any(const void* raw, Element element, int64_t n, const Packing& p,
                                        float* out, bool gaps) {
  switch (element) {
    case Element::i8:
      return unpack_as(static_cast<const int8_t*>(raw), n, p, out, gaps);
    case Element::u8:
      return unpack_as(static_cast<const uint8_t*>(raw), n, p, out, gaps);
    case Element::i16:
      return unpack_as(static_cast<const int16_t*>(raw), n, p, out, gaps);
    case Element::u16:
      return unpack_as(static_cast<const uint16_t*>(raw), n, p, out, gaps);
    case Element::i32:
      return unpack_as(static_cast<const int32_t*>(raw), n, p, out, gaps);
    case Element::u32:
      return unpack_as(static_cast<const uint32_t*>(raw), n, p, out, gaps);
    case Element::i64:
      return unpack_as(static_cast<const int64_t*>(raw), n, p, out, gaps);
    case Element::u64:
      return unpack_as(static_cast<const uint64_t*>(raw), n, p, out, gaps);
    case Element::f32:
      return unpack_as(static_cast<const float*>(raw), n, p, out, gaps);
    case Element::f64:
      return unpack_as(static_cast<const double*>(raw), n, p, out, gaps);
    case Element::f16:
      return unpack_as(static_cast<const Half*>(raw), n, p, out, gaps);
  }
  return -1;
}

template <class U, class Swap>
ISOBAR_ALWAYS_INLINE void swap_each(void* data, int64_t n, Swap swap) {
  auto* bytes = static_cast<unsigned char*>(data);
  for (int64_t i = 0; i < n; ++i) {
    U u;
    std::memcpy(&u, bytes + i * sizeof(U), sizeof(U));
    u = swap(u);
    std::memcpy(bytes + i * sizeof(U), &u, sizeof(U));
  }
}

ISOBAR_ALWAYS_INLINE void swap_any(void* data, int64_t n, int64_t size) {
  if (size == 2) swap_each<uint16_t>(data, n, [](uint16_t u) { return __builtin_bswap16(u); });
  if (size == 4) swap_each<uint32_t>(data, n, [](uint32_t u) { return __builtin_bswap32(u); });
  if (size == 8) swap_each<uint64_t>(data, n, [](uint64_t u) { return __builtin_bswap64(u); });
}

// The same code compiled for wider vectors, as in normalise.cpp, but without FMA, whose rounding differs.
#if defined(__x86_64__)
__attribute__((target("avx2"))) int64_t unpack_wide(const void* raw, Element element, int64_t n,
                                                    const Packing& p, float* out, bool gaps) {
  return unpack_any(raw, element, n, p, out, gaps);
}
__attribute__((target("avx2"))) void swap_wide(void* data, int64_t n, int64_t size) {
  swap_any(data, n, size);
}
bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}
#else
int64_t unpack_wide(const void* raw, Element element, int64_t n, const Packing& p, float* out, bool gaps) {
  return unpack_any(raw, element, n, p, out, gaps);
}
void swap_wide(void* data, int64_t n, int64_t size) {
  swap_any(data, n, size);
}
bool has_avx2() {
  return false;
}
#endif

}  // namespace

int64_t unpack(const void* raw, Element stored, int64_t n, const Packing& p, float* out, bool gaps) {
  const Element element = p.flips_sign ? other_sign(stored) : stored;
  return has_avx2() ? unpack_wide(raw, element, n, p, out, gaps) : unpack_any(raw, element, n, p, out, gaps);
}

void swap_bytes(void* data, int64_t n, int64_t size) {
  has_avx2() ? swap_wide(data, n, size) : swap_any(data, n, size);
}

}  // namespace isobar::data
