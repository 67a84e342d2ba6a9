// Errors that a user can mend.
//
// Every bad input ends in exactly one of these: it names the file, the key and what to do. The command prints
// what() on one line and exits with code 2.
//
//   throw ConfigError("vit.yaml", "net.patch_size", "7 does not divide the image of 360 x 720", "use 8 or
//   4");
#pragma once
#include <stdexcept>
#include <string>

namespace isobar {

class ConfigError : public std::runtime_error {
 public:
  ConfigError(const std::string& file, const std::string& key, const std::string& what,
              const std::string& mend)
      : std::runtime_error(file + ": " + (key.empty() ? "" : "'" + key + "': ") + what +
                           (mend.empty() ? "" : " -> " + mend)) {}
};

}  // namespace isobar
