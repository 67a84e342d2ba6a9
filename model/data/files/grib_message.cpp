#include "model/data/files/grib_message.h"

#include <array>
#include <optional>
#include <string>

#include "model/data/files/raw_array.h"

namespace isobar::data {

namespace {

constexpr size_t kIndicator = 16, kEnd = 4;  // bytes of sections 0 and 8
constexpr int kData = 7, kBitmap = 6;
constexpr std::byte kAsBefore{254};  // reuse the bitmap of an earlier field

struct Section {
  size_t at = 0, bytes = 0;
};
using FieldSections = std::array<Section, kData + 1>;  // by number; empty: none

uint64_t number_at(const std::vector<std::byte>& m, size_t at, size_t bytes) {
  uint64_t n = 0;
  for (size_t i = 0; i < bytes; ++i) n = n << 8 | static_cast<uint64_t>(m[at + i]);
  return n;
}

bool is_grib_2(const std::vector<std::byte>& m) {
  return m.size() >= kIndicator + kEnd && m[7] == std::byte{2};
}

[[noreturn]] void torn(const std::string& what) {
  throw ArrayError("a message of it " + what, "copy or download it again");
}

/// Calls `take` with the sections of each field, in order.
template <class Take>
void each_field(const std::vector<std::byte>& m, const Take& take) {
  FieldSections now{};
  Section bitmap{};
  size_t at = kIndicator;
  while (at + kEnd < m.size()) {
    if (at + 5 > m.size()) torn("ends within a section");
    const Section s{at, static_cast<size_t>(number_at(m, at, 4))};
    const auto number = static_cast<size_t>(m[at + 4]);
    if (s.bytes < 5 || s.bytes > m.size() - kEnd - at || number < 1 || number > kData)
      torn("has a section " + std::to_string(number) + " of " + std::to_string(s.bytes) + " bytes");
    at += s.bytes;
    now[number] = s;
    if (number == kBitmap && s.bytes > 5) {
      if (m[s.at + 5] == kAsBefore && bitmap.bytes > 0) now[number] = bitmap;
      if (m[s.at + 5] != kAsBefore) bitmap = s;
    }
    if (number == kData) take(now);
  }
}

}  // namespace

int64_t grib_fields_of(const std::vector<std::byte>& message) {
  if (!is_grib_2(message)) return 1;
  int64_t n = 0;
  each_field(message, [&](const FieldSections&) { ++n; });
  return n;
}

std::vector<std::byte> grib_field(const std::vector<std::byte>& message, int64_t field) {
  if (!is_grib_2(message) || (field == 0 && grib_fields_of(message) == 1)) return message;
  std::optional<FieldSections> wanted;
  int64_t n = 0;
  each_field(message, [&](const FieldSections& f) {
    if (n++ == field) wanted = f;
  });
  if (!wanted) torn("has no field " + std::to_string(field + 1));
  std::vector<std::byte> out(message.begin(), message.begin() + kIndicator);
  for (const Section& s : *wanted)
    out.insert(out.end(), message.begin() + static_cast<int64_t>(s.at),
               message.begin() + static_cast<int64_t>(s.at + s.bytes));
  out.insert(out.end(), kEnd, std::byte{'7'});
  for (size_t i = 0; i < 8; ++i) out[8 + i] = static_cast<std::byte>(out.size() >> (8 * (7 - i)));
  return out;
}

}  // namespace isobar::data
