// Errors that a user can fix.
//
// Every bad input ends in exactly one of these: it names the file, the key and what to do. The command prints
// what() on one line and exits with code 2.
//
//   throw ConfigError("vit.yaml", "net.patch_size", "7 does not divide 360 x 720", "use 8 or 4");
#pragma once
#include <stdexcept>
#include <string>

namespace isobar {

/// A text made fit to be shown on one line, because it may repeat any input. Line ends become \n; control
/// characters and bytes that are not UTF-8 become \xNN (a NUL would end the text, an escape would reach the
/// terminal, a direction mark would reorder the line).
std::string showable(const std::string& text);

/// A key as errors name it: "" (quoted) for an empty one, which would otherwise name nothing.
std::string key_named(const std::string& key);

class ConfigError : public std::runtime_error {
 public:
  ConfigError(const std::string& file, const std::string& key, const std::string& what,
              const std::string& mend);
  /// Rebuilds an error of another process from its what().
  static ConfigError from_line(const std::string& line) { return ConfigError(line); }

 private:
  explicit ConfigError(const std::string& line) : std::runtime_error(line) {}
};

}  // namespace isobar
