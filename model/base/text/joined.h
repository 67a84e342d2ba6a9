// A list as one text, for messages and names.
//
//   joined(names)                             // "u10, v10"
//   joined(sizes, " x ")                      // "721 x 1440"
//   joined(places, ", ", &ChannelPlace::name) // a member of each, or what a function returns of it
#pragma once
#include <functional>
#include <string>
#include <type_traits>

namespace isobar {

template <class List, class Word = std::identity>
std::string joined(const List& list, const char* between = ", ", const Word& word = {}) {
  std::string out;
  for (const auto& one : list) {
    if (!out.empty()) out += between;
    const auto& text = std::invoke(word, one);
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(text)>>)
      out += std::to_string(text);
    else
      out += text;
  }
  return out;
}

}  // namespace isobar
