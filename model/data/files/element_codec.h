// Codecs of numcodecs that transform numbers rather than bytes: differences, scaled integers, other types.
//
//   const auto codec = element_codec("delta", configuration);   // none: another codec; throws ArrayError
//   codec->undo(in, n, out);                                     // n elements of `from` to n of `to`
#pragma once
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "model/data/files/element.h"

namespace isobar::data {

struct ElementCodec {
  enum class Kind : uint8_t { convert, add_up, scale };
  Kind kind = Kind::convert;
  Element from = Element::f32, to = Element::f32;  // stored type; original type
  double scale = 1, offset = 0;                    // stored / scale + offset
  void undo(const std::byte* in, int64_t n, std::byte* out) const;
};

/// "delta", "fixedscaleoffset", "quantize" and "astype".
std::optional<ElementCodec> element_codec(const std::string& id, const nlohmann::json& configuration);

}  // namespace isobar::data
