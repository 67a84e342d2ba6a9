// Element types of safetensors: their size in bits and their conversion.
//
//   const StoredType* t = stored_type("BF16");      // nullptr: the format has no such type
//   convert(*t, bytes, count, values);
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace isobar::inference {

struct StoredType {
  enum class Kind : uint8_t { floating, integer, other };
  std::string_view name;
  int bits;   // per element; 4 and 6 are packed
  Kind kind;  // other: scales, packed or complex numbers, which are skipped
};

const StoredType* stored_type(std::string_view name);

/// Converts elements of a kind that is not `other`.
void convert(const StoredType& t, const std::byte* bytes, int64_t count, float* values);
void convert(const StoredType& t, const std::byte* bytes, int64_t count, double* values);

}  // namespace isobar::inference
