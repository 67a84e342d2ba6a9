#include "perfmodel/machine/name_words.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace isobar::perf {

std::string upper_case(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::toupper(c); });
  return s;
}

NameWords name_words(const std::string& name, bool with_parentheses) {
  std::vector<std::string> in_order;
  std::string word;
  int depth = 0;
  for (const char c : upper_case(name) + " ") {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if ((depth == 0 || with_parentheses) && std::isalnum(static_cast<unsigned char>(c))) {
      word += c;
    } else if (!word.empty()) {
      const bool of_number = word == "GB" && !in_order.empty() &&
                             in_order.back().find_first_not_of("0123456789") == std::string::npos;
      if (of_number)
        in_order.back() += word;
      else
        in_order.push_back(word);
      word.clear();
    }
  }
  return {in_order.begin(), in_order.end()};
}

}  // namespace isobar::perf
