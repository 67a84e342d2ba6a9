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

/// A text as it can be shown, on one line: what it repeats of an input may hold anything. Line ends become
/// \n, control characters and bytes that are no UTF-8 \xNN (a NUL would end the text, an escape would reach
/// the terminal, a mark of direction would reorder the line).
std::string showable(const std::string& text);

/// A key of an input as errors name it: "" where it is the empty text, which would name nothing.
std::string key_named(const std::string& key);

class ConfigError : public std::runtime_error {
 public:
  ConfigError(const std::string& file, const std::string& key, const std::string& what,
              const std::string& mend);
  /// The error that another process made, from its what().
  static ConfigError from_line(const std::string& line) { return ConfigError(line); }

 private:
  explicit ConfigError(const std::string& line) : std::runtime_error(line) {}
};

}  // namespace isobar
