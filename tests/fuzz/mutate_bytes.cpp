// Mutations of binary files.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "tests/fuzz/fuzz.h"

namespace isobar::fuzz {
namespace {

// Values near the limits of the types of lengths.
constexpr uint64_t kExtremes[] = {0,
                                  1,
                                  2,
                                  7,
                                  0x7f,
                                  0x80,
                                  0xff,
                                  0x7fff,
                                  0x8000,
                                  0xffff,
                                  0x10000,
                                  0x7fffffff,
                                  0x80000000,
                                  0xffffffff,
                                  0x100000000,
                                  uint64_t{1} << 40,
                                  uint64_t{1} << 61,
                                  0x7fffffffffffffff,
                                  0x8000000000000000,
                                  0xffffffffffffffff};

// Most mutations are near the front, where most metadata are.
size_t place(const std::string& bytes, Random& r) {
  const size_t head = std::min<size_t>(bytes.size(), 1024);
  return r() % 3 == 0 ? below(r, bytes.size()) : below(r, head);
}

void put_number(std::string& bytes, uint64_t value, Random& r) {
  constexpr size_t kWidths[] = {1, 2, 4, 8};
  const size_t width = kWidths[below(r, 4)];
  if (bytes.size() < width) return;
  size_t at = std::min(place(bytes, r), bytes.size() - width);
  if (r() % 2) at -= at % width;
  if (r() % 3 == 0) {  // a little more or less than the stored value
    uint64_t there = 0;
    std::memcpy(&there, &bytes[at], width);
    value = there + (r() % 2 ? 1 : -1) * (1 + below(r, 16));
  }
  char raw[8];
  std::memcpy(raw, &value, 8);
  if (r() % 4 == 0) std::reverse(raw, raw + width);  // big-endian, as classic netCDF has it
  std::memcpy(&bytes[at], raw, width);
}

}  // namespace

void mutate_bytes(std::string& bytes, const std::string& other, Random& r) {
  if (bytes.empty()) bytes = other;
  if (bytes.empty()) return;
  switch (below(r, 12)) {
    case 0:
    case 1:
      bytes[place(bytes, r)] ^= static_cast<char>(1 << below(r, 8));
      break;
    case 2:
      bytes[place(bytes, r)] = static_cast<char>(r());
      break;
    case 3:
    case 4:
    case 5:
    case 6:
      put_number(bytes, kExtremes[below(r, std::size(kExtremes))], r);
      break;
    case 7:  // cut off
      bytes.resize(below(r, bytes.size()) + 1);
      break;
    case 8: {  // a piece of another file or position
      const std::string& from = r() % 2 ? bytes : other;
      if (from.empty()) break;
      const size_t n = 1 + below(r, std::min<size_t>(from.size(), 64));
      const std::string piece = from.substr(below(r, from.size()), n);
      const size_t at = place(bytes, r);
      bytes.replace(at, std::min(piece.size(), bytes.size() - at), piece);
      break;
    }
    case 9:  // bytes removed or inserted, which shifts the rest
      if (r() % 2)
        bytes.erase(place(bytes, r), 1 + below(r, 16));
      else
        bytes.insert(place(bytes, r), std::string(1 + below(r, 16), static_cast<char>(r())));
      break;
    case 10: {  // a stretch of one value
      const size_t at = place(bytes, r), n = std::min(bytes.size() - at, 1 + below(r, 32));
      bytes.replace(at, n, std::string(n, r() % 2 ? '\0' : '\xff'));
      break;
    }
    default:  // the head of one, the tail of another
      bytes = bytes.substr(0, place(bytes, r)) + other.substr(below(r, other.size()));
  }
}

}  // namespace isobar::fuzz
