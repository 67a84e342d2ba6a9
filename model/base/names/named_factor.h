// "name=number" entries of a specification's lists.
//
//   named_factor("blocks.*=0.1")   // {"blocks.*", 0.1}; nullopt for what is none, or a number below 0
#pragma once
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

namespace isobar {

struct NamedFactor {
  std::string name;
  double factor = 1;
};

inline std::optional<NamedFactor> named_factor(const std::string& text) {
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0) return std::nullopt;
  NamedFactor out{text.substr(0, at), 0};
  const char *const begin = text.data() + at + 1, *const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(begin, end, out.factor);
  if (error != std::errc() || rest != end || !(out.factor >= 0) || !std::isfinite(out.factor))
    return std::nullopt;
  return out;
}

/// "name>threshold=factor"
struct NamedThreshold {
  std::string name;
  double above = 0, factor = 1;
};

inline std::optional<NamedThreshold> named_threshold(const std::string& text) {
  const auto f = named_factor(text);
  const size_t at = f ? f->name.rfind('>') : std::string::npos;
  if (at == std::string::npos || at == 0) return std::nullopt;
  NamedThreshold out{f->name.substr(0, at), 0, f->factor};
  const char *const begin = f->name.data() + at + 1, *const end = f->name.data() + f->name.size();
  const auto [rest, error] = std::from_chars(begin, end, out.above);
  if (error != std::errc() || rest != end || !std::isfinite(out.above)) return std::nullopt;
  return out;
}

}  // namespace isobar
