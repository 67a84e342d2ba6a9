// Errors that a user can mend.
//
// Every bad input ends in exactly one of these: it names the file, the key and what to do. The command prints
// what() on one line and exits with code 2.
//
//   throw ConfigError("vit.yaml", "net.patch_size", "7 does not divide 360 x 720", "use 8 or 4");
#pragma once
#include <stdexcept>
#include <string>

namespace isobar {

/// A text as it can be shown: control bytes of whatever input it repeats are written \xNN (a NUL would end
/// it, an escape would reach the terminal).
inline std::string showable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte >= 0x20 && byte != 0x7f) || c == '\n' || c == '\t')
      out += c;
    else
      out.append("\\x").append(1, "0123456789abcdef"[byte >> 4]).append(1, "0123456789abcdef"[byte & 15]);
  }
  return out;
}

class ConfigError : public std::runtime_error {
 public:
  ConfigError(const std::string& file, const std::string& key, const std::string& what,
              const std::string& mend)
      : std::runtime_error(showable(file + ": " + (key.empty() ? "" : "'" + key + "': ") + what +
                                    (mend.empty() ? "" : " -> " + mend))) {}
};

}  // namespace isobar
