#include <regex.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "bench/logs/forms/forms.h"
#include "bench/logs/log_text.h"
#include "model/base/error.h"

namespace isobar::logs {
namespace {

constexpr size_t kMostGroups = 32;
constexpr size_t kLongestForExpression = 1 << 12;  // bytes of a line; matching may take their square

QuantityIn known(const std::string& word, const std::string& file) {
  if (const auto q = quantity_of_word(word)) return *q;
  std::string all;
  for (const std::string& w : quantity_words()) all += (all.empty() ? "" : ", ") + w;
  throw ConfigError(file, "run.reads", "names '" + word + "', which is no number of a training",
                    "use one of " + all);
}

/// Text, numbers by name, and * for anything
class TextPattern {
 public:
  TextPattern(const std::string& text, const std::string& file) {
    std::string words;
    const auto flush = [&] {
      if (!words.empty()) pieces_.push_back({Piece::words, words, {}});
      words.clear();
    };
    for (size_t i = 0; i < text.size(); ++i) {
      const size_t end = text[i] == '{' ? text.find('}', i) : std::string::npos;
      if (end != std::string::npos) {
        flush();
        pieces_.push_back({Piece::number, "", known(text.substr(i + 1, end - i - 1), file)});
        i = end;
      } else if (text[i] == '*') {
        flush();
        pieces_.push_back({Piece::anything, "", {}});
      } else {
        words += text[i];
      }
    }
    flush();
  }

  std::optional<Quantities> operator()(std::string_view line) const {
    std::string_view rest = line;
    Quantities out;
    bool anywhere = true;  // the first piece may begin anywhere in the line
    for (const Piece& p : pieces_) {
      if (p.kind == Piece::anything) {
        anywhere = true;
        continue;
      }
      if (p.kind == Piece::words) {
        const size_t at = rest.find(p.text);
        if (at == std::string_view::npos || (!anywhere && at != 0)) return std::nullopt;
        rest.remove_prefix(at + p.text.size());
      } else {
        std::optional<double> value = number_at(rest, &rest);
        for (; anywhere && !value && !rest.empty(); value = number_at(rest, &rest)) rest.remove_prefix(1);
        if (!value) return std::nullopt;
        out[p.quantity.quantity] = p.quantity.factor * *value;
      }
      anywhere = false;
    }
    out.drop_impossible();
    return out;
  }

 private:
  struct Piece {
    enum Kind : uint8_t { words, number, anything } kind;
    std::string text;
    QuantityIn quantity;
  };
  std::vector<Piece> pieces_;
};

/// A POSIX expression, whose groups `(?<name>` and `(?P<name>` are numbers; \d, \w and \s are understood.
class RegularExpression {
 public:
  RegularExpression(const std::string& text, const std::string& file) : compiled_(new regex_t{}, release) {
    const size_t groups = translate(text, file);
    const int rc = ::regcomp(compiled_.get(), posix_.c_str(), REG_EXTENDED);
    if (rc != 0 || groups >= kMostGroups) {
      std::array<char, 128> why{};
      if (rc != 0) ::regerror(rc, compiled_.get(), why.data(), why.size());
      throw ConfigError(file, "run.reads",
                        "has an expression that cannot be read: " +
                            (rc != 0 ? std::string(why.data()) : "more than 31 groups"),
                        "write it as for grep -E, with groups as (?<step>[0-9]+)");
    }
  }

  std::optional<Quantities> operator()(std::string_view line) const {
    const std::string text(line.substr(0, kLongestForExpression));
    std::array<regmatch_t, kMostGroups> at{};
    if (::regexec(compiled_.get(), text.c_str(), at.size(), at.data(), 0) != 0) return std::nullopt;
    Quantities out;
    for (const auto& [group, q] : named_) {
      if (at[group].rm_so < 0) continue;
      const std::string_view found(text.data() + at[group].rm_so,
                                   static_cast<size_t>(at[group].rm_eo - at[group].rm_so));
      if (const auto v = number_at(found)) out[q.quantity] = q.factor * *v;
    }
    out.drop_impossible();
    return out.any() ? std::optional(out) : std::nullopt;
  }

 private:
  /// Fills posix_ and named_; returns the number of groups.
  size_t translate(const std::string& text, const std::string& file) {
    size_t groups = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '[') {
        // A ] that comes first is one of the set.
        const size_t first = text.compare(i, 2, "[^") == 0 ? i + 2 : i + 1;
        const size_t end = std::min(text.find(']', first + 1), text.size());
        for (; i < end; ++i)
          posix_ += text.compare(i, 2, "\\d") == 0 ? (++i, "0-9") : std::string(1, text[i]);
        if (i < text.size()) posix_ += ']';
      } else if (text[i] == '\\' && i + 1 < text.size()) {
        const char c = text[++i];
        posix_ += c == 'd' ? "[0-9]" : std::string("\\") + c;
      } else if (text[i] == '(') {
        ++groups;
        posix_ += '(';
        i = after_name(text, i, groups, file);
      } else {
        posix_ += text[i];
      }
    }
    return groups;
  }
  /// The last byte of "(", "(?:" or "(?<name>" at `i`.
  size_t after_name(const std::string& text, size_t i, size_t group, const std::string& file) {
    if (text.compare(i, 3, "(?:") == 0) return i + 2;
    const size_t open = text.compare(i, 3, "(?<") == 0 ? i + 3 : text.compare(i, 4, "(?P<") == 0 ? i + 4 : 0;
    const size_t close = open ? text.find('>', open) : std::string::npos;
    if (close == std::string::npos) return i;
    named_.emplace_back(group, known(text.substr(open, close - open), file));
    return close;
  }
  static void release(regex_t* r) {
    ::regfree(r);
    delete r;
  }
  std::shared_ptr<regex_t> compiled_;
  std::string posix_;
  std::vector<std::pair<size_t, QuantityIn>> named_;
};

bool has_named_group(const std::string& text) {
  return text.find("(?<") != std::string::npos || text.find("(?P<") != std::string::npos;
}

}  // namespace

bool describes_a_line(const std::string& text) {
  return has_named_group(text) || text.find('{') != std::string::npos;
}

LineReader own_line(const std::string& text, const std::string& file) {
  if (has_named_group(text)) return RegularExpression(text, file);
  return TextPattern(text, file);
}

}  // namespace isobar::logs
