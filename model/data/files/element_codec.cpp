#include "model/data/files/element_codec.h"

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "model/base/dtype.h"
#include "model/data/files/raw_array.h"

namespace isobar::data {

namespace {

using nlohmann::json;

Element type_named(const std::string& codec, const json& name) {
  static const std::map<std::string, Element> kTypes = {
      {"i1", Element::i8},  {"u1", Element::u8},  {"i2", Element::i16}, {"u2", Element::u16},
      {"i4", Element::i32}, {"u4", Element::u32}, {"i8", Element::i64}, {"u8", Element::u64},
      {"f2", Element::f16}, {"f4", Element::f32}, {"f8", Element::f64}};
  const std::string text = name.is_string() ? name.get<std::string>() : name.dump();
  const size_t at = text.find_first_not_of("<|=");
  const auto found = kTypes.find(at == std::string::npos ? "" : text.substr(at));
  if (found == kTypes.end())
    throw ArrayError("is stored with the codec '" + codec + "' of elements '" + text + "', which is not read",
                     "");
  return found->second;
}

/// Calls f with a value of the element's C++ type
template <class F>
void with_type(Element e, const F& f) {
  switch (e) {
    case Element::i8:
      return f(int8_t{});
    case Element::u8:
      return f(uint8_t{});
    case Element::i16:
      return f(int16_t{});
    case Element::u16:
      return f(uint16_t{});
    case Element::i32:
      return f(int32_t{});
    case Element::u32:
      return f(uint32_t{});
    case Element::i64:
      return f(int64_t{});
    case Element::u64:
      return f(uint64_t{});
    case Element::f32:
      return f(float{});
    case Element::f64:
      return f(double{});
    case Element::f16:
      return f(f16{});
  }
}

template <class T>
T at(const std::byte* from, int64_t i) {
  T x;
  std::memcpy(&x, from + i * static_cast<int64_t>(sizeof x), sizeof x);
  return x;
}

template <class T>
void put(std::byte* to, int64_t i, T x) {
  std::memcpy(to + i * static_cast<int64_t>(sizeof x), &x, sizeof x);
}

template <class T>
auto number(T x) {
  if constexpr (std::is_same_v<T, f16>)
    return to_float(x);
  else
    return x;
}

/// NumPy's conversion: integers wrap, and floats out of range, which are undefined in C++, become the type's
/// lowest value.
template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, f16>) {
    return to_f16(static_cast<float>(x));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    const bool inside = x >= -9223372036854775808.0 && x < 9223372036854775808.0;
    return static_cast<To>(inside ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min());
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
void add_up(const std::byte* in, int64_t n, std::byte* out) {
  if constexpr (std::is_same_v<To, f16>) {
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      sum = to_float(to_f16(sum + static_cast<float>(number(at<From>(in, i)))));
      put(out, i, to_f16(sum));
    }
  } else if constexpr (std::is_floating_point_v<To>) {
    To sum = 0;
    for (int64_t i = 0; i < n; ++i) put(out, i, sum += static_cast<To>(number(at<From>(in, i))));
  } else {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; ++i)
      put(out, i, static_cast<To>(sum += static_cast<uint64_t>(converted<int64_t>(number(at<From>(in, i))))));
  }
}

}  // namespace

void ElementCodec::undo(const std::byte* in, int64_t n, std::byte* out) const {
  with_type(from, [&](auto stored) {
    with_type(to, [&](auto wanted) {
      using From = decltype(stored);
      using To = decltype(wanted);
      if (kind == Kind::add_up) return add_up<From, To>(in, n, out);
      for (int64_t i = 0; i < n; ++i) {
        const auto x = number(at<From>(in, i));
        if (kind == Kind::convert) {
          put(out, i, converted<To>(x));
        } else if constexpr (std::is_same_v<From, float> || std::is_same_v<From, f16>) {
          put(out, i, converted<To>(x / static_cast<float>(scale) + static_cast<float>(offset)));
        } else {
          put(out, i, converted<To>(static_cast<double>(x) / scale + offset));
        }
      }
    });
  });
}

std::optional<ElementCodec> element_codec(const std::string& id, const json& c) {
  const auto type = [&](const char* key, const json& otherwise) {
    return type_named(id, c.contains(key) && !c.at(key).is_null() ? c.at(key) : otherwise);
  };
  const json none = "of no name";
  if (id == "astype")
    return ElementCodec{.from = type("encode_dtype", none), .to = type("decode_dtype", none)};
  if (id != "delta" && id != "fixedscaleoffset" && id != "quantize") return std::nullopt;
  ElementCodec codec{.to = type("dtype", none)};
  codec.from = type("astype", c.value("dtype", none));
  if (id == "delta") codec.kind = ElementCodec::Kind::add_up;
  if (id != "fixedscaleoffset") return codec;
  codec.kind = ElementCodec::Kind::scale;
  codec.scale = c.at("scale").get<double>(), codec.offset = c.at("offset").get<double>();
  if (codec.scale == 0 || !std::isfinite(codec.scale) || !std::isfinite(codec.offset))
    throw ArrayError("is stored with the codec 'fixedscaleoffset' of scale " + c.at("scale").dump(), "");
  return codec;
}

}  // namespace isobar::data
