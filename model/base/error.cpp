#include "model/base/error.h"

#include <cstdint>

namespace isobar {
namespace {

struct Character {
  size_t bytes = 0;  // 0: no UTF-8 begins here
  uint32_t code = 0;
};

// RFC 3629: shortest forms up to U+10FFFF, no surrogates.
Character character_at(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const uint32_t first = byte(at);
  if (first < 0x80) return {1, first};
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return {};
  uint32_t code = first & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(at + i) & 0x3f);
  }
  const uint32_t least = bytes == 2 ? 0x80 : bytes == 3 ? 0x800 : 0x10000;
  if (code < least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {};
  return {bytes, code};
}

// Control characters, Unicode line ends, and marks that change the direction of writing.
bool disturbs(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || (c >= 0x202a && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

std::string hexadecimal(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out.append("\\x").append(1, "0123456789abcdef"[byte >> 4]).append(1, "0123456789abcdef"[byte & 15]);
  }
  return out;
}

// A message that repeats a megabyte of its input is of no use.
std::string shortened(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > most - 4 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + " ...";
}

}  // namespace

std::string showable(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    const std::string bytes = text.substr(at, c.bytes == 0 ? 1 : c.bytes);
    if (c.bytes > 0 && !disturbs(c.code))
      out += bytes;
    else if (bytes == "\n" || bytes == "\t")
      out += bytes == "\n" ? "\\n" : "\\t";
    else
      out += hexadecimal(bytes);
    at += bytes.size();
  }
  return out;
}

std::string key_named(const std::string& key) {
  return key.empty() ? "\"\"" : key;
}

ConfigError::ConfigError(const std::string& file, const std::string& key, const std::string& what,
                         const std::string& mend)
    : std::runtime_error(
          showable(shortened(file, 4096) + ": " + (key.empty() ? "" : "'" + shortened(key, 256) + "': ") +
                   shortened(what, 2000) + (mend.empty() ? "" : " -> " + shortened(mend, 2000)))) {}

}  // namespace isobar
