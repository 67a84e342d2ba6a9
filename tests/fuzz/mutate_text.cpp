// Mutations of texts: bits, tokens, lines, numbers, nesting, tails of other files.
#include "tests/fuzz/fuzz.h"

#include <cctype>

namespace isobar::fuzz {
namespace {

const std::vector<std::string> kWords = {"0",
                                         "-1",
                                         "1",
                                         "2",
                                         "1e308",
                                         "-1e-308",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "18446744073709551616",
                                         "nan",
                                         ".inf",
                                         "null",
                                         "~",
                                         "true",
                                         "\"\"",
                                         "''",
                                         "[]",
                                         "{}",
                                         "[[]]",
                                         "{a: {b: {c: 1}}}",
                                         "[1, 2, 3]",
                                         "&a",
                                         "*a",
                                         "&a [*a]",
                                         "!!binary",
                                         "!",
                                         "|",
                                         ">",
                                         "---",
                                         "...",
                                         "? ",
                                         ": ",
                                         "- ",
                                         "<<: *a",
                                         "inherits: base.yaml",
                                         "inherits: mutated",
                                         "axes:",
                                         "gpus: [1, 2, 4]",
                                         "any",
                                         "\t",
                                         "\n",
                                         "\r\n",
                                         ",",
                                         "\"",
                                         "#",
                                         "%",
                                         "@",
                                         "`",
                                         "\xff\xfe",
                                         "\xef\xbb\xbf",
                                         std::string(1, '\0'),
                                         "layout.dp: 3",
                                         "policy.amp: [none, bf16]",
                                         "cluster: {scheduler: slurm, cores: [4-7, 9-8, '-', '1,,2']}",
                                         "preamble: [[source, x], []]",
                                         "tp: [0, -1, 3]",
                                         "1,2",
                                         "repetitions: 1000",
                                         "constraints: {max_ranks: 1}",
                                         "exclude: [{gpus: 2}]",
                                         "include: [{tp: 2}]"};

std::string line_of(const std::string& text, Random& r) {
  std::vector<size_t> starts = {0};
  for (size_t i = 0; i + 1 < text.size(); ++i)
    if (text[i] == '\n') starts.push_back(i + 1);
  const size_t begin = starts[below(r, starts.size())], end = text.find('\n', begin);
  return text.substr(begin, end == std::string::npos ? end : end - begin + 1);
}

// The range of a word, from one separator to the next.
std::pair<size_t, size_t> token(const std::string& text, Random& r) {
  const char* separators = " \n,[]{}:";
  const size_t at = below(r, text.size());
  const size_t begin = text.find_first_not_of(separators, at);
  if (begin == std::string::npos) return {at, 0};
  const size_t end = text.find_first_of(separators, begin);
  return {begin, (end == std::string::npos ? text.size() : end) - begin};
}

}  // namespace

void mutate_text(std::string& text, const std::string& other, Random& r) {
  if (text.empty()) text = other;
  if (text.empty()) return;
  switch (below(r, 10)) {
    case 0:  // a bit
      text[below(r, text.size())] ^= static_cast<char>(1 << below(r, 8));
      break;
    case 1: {  // a value for another
      const auto [at, n] = token(text, r);
      text.replace(at, n, kWords[below(r, kWords.size())]);
      break;
    }
    case 2: {  // a token of another file
      const auto [at, n] = token(text, r);
      const auto [from, m] = token(other, r);
      text.replace(at, n, other.substr(from, m));
      break;
    }
    case 3: {  // a line away
      const std::string line = line_of(text, r);
      if (const size_t at = text.find(line); at != std::string::npos) text.erase(at, line.size());
      break;
    }
    case 4:  // a line twice, or of another file
      text.insert(below(r, text.size()), line_of(r() % 2 ? text : other, r));
      break;
    case 5:  // cut off
      text.resize(below(r, text.size()) + 1);
      break;
    case 6: {  // a number a little or much larger
      const auto [at, n] = token(text, r);
      if (n > 0 && std::isdigit(static_cast<unsigned char>(text[at])))
        text.insert(at + below(r, n), std::string(1 + below(r, 12), static_cast<char>('0' + below(r, 10))));
      break;
    }
    case 7:  // nesting
      text.insert(below(r, text.size()), std::string(1 + below(r, 300), "[{-"[below(r, 3)]));
      break;
    case 8:
      text.insert(below(r, text.size()), kWords[below(r, kWords.size())]);
      break;
    default:  // the tail of another file
      text = text.substr(0, below(r, text.size())) + other.substr(below(r, other.size()));
  }
}

}  // namespace isobar::fuzz
