// Names of chips and engines as people write them, compared word by word.
//
//   name_words("A100-80 GB-SXM (Selene)")     // {"80GB", "A100", "SXM"}
#pragma once
#include <set>
#include <string>

namespace isobar::perf {

std::string upper_case(std::string s);

using NameWords = std::set<std::string>;
/// Upper-case runs of letters and digits; a number and a following GB are one word. Text in parentheses is
/// left out unless asked for.
NameWords name_words(const std::string& name, bool with_parentheses = false);

}  // namespace isobar::perf
