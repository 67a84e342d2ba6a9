#include "model/base/spec/key_row.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "model/base/error.h"
#include "model/base/text/joined.h"
#include "model/base/text/json.h"

namespace isobar {
namespace {

using nlohmann::json;

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

/// Section and name of a key
struct Address {
  explicit Address(std::string_view key)
      : section(key.substr(0, key.find('.'))), name(key.substr(key.find('.') + 1)) {}
  std::string_view section, name;
};

// 3, 0.0001, 1e+06; whole numbers with all their digits.
std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value == std::floor(value) && std::abs(value) < 1e12 ? "%.0f" : "%g",
                value);
  return text;
}

/// Reads one value, with an error that names its key.
struct ValueReader {
  const char* key;
  const std::string& file;
  const json& v;

  [[noreturn]] void wrong(const char* want) const {
    throw ConfigError(file, key, "is " + json_text(v) + ", not " + want, std::string("give ") + want);
  }
  /// No size, count or step comes near, and products of a few such stay within 64 bits; a seed may be any.
  static constexpr int64_t kMostOfAny = int64_t{1} << 40;
  int64_t bounded(const json& x) const {
    const int64_t most =
        std::string_view(key).ends_with("seed") ? std::numeric_limits<int64_t>::max() : kMostOfAny;
    const bool above = x.is_number_unsigned() ? x.get<uint64_t>() > static_cast<uint64_t>(most)
                                              : x.get<int64_t>() > most || x.get<int64_t>() < -most;
    if (above)
      throw ConfigError(file, key, "is " + json_text(x) + ", beyond " + std::to_string(most), "give less");
    return x.get<int64_t>();
  }
  std::string word() const {
    if (v.is_null()) return "";
    if (!v.is_string()) wrong("a word");
    return v.get<std::string>();
  }
  int64_t whole(const char* or_word) const {
    if (v.is_null()) return 0;
    if (!v.is_number_integer())
      wrong(or_word ? (std::string("a whole number, or ") + or_word).c_str() : "a whole number");
    return bounded(v);
  }
  double number() const {
    if (!v.is_number()) wrong("a number");
    return v.get<double>();
  }
  bool truth() const {
    if (!v.is_boolean()) wrong("true or false");
    return v.get<bool>();
  }
  template <class Is>
  const json& items(const char* want, const Is& is) const {
    static const json none = json::array();
    if (v.is_null()) return none;
    if (!v.is_array()) wrong(want);
    for (const json& item : v)
      if (!is(item)) wrong(want);
    return v;
  }
};

}  // namespace

void KeyRow::read(const json& j, const std::string& file) const {
  const Address at(key);
  const auto section = j.find(at.section);
  if (section == j.end()) return;
  const auto value = section->find(at.name);
  if (value == section->end()) return;
  const ValueReader from{key, file, *value};
  const char* const other = allowed_.word;
  std::visit(Overloaded{[&](int64_t* to) {
                          if (other && from.v == other)
                            *to = kWordNumber;
                          else if (*to = from.whole(other); other && *to == kWordNumber)
                            from.wrong("0 or more");
                        },
                        [&](double* to) { *to = from.number(); }, [&](bool* to) { *to = from.truth(); },
                        [&](std::string* to) { *to = from.word(); },
                        [&](const Word& to) {
                          const std::string word = from.word();
                          size_t i = 0;
                          while (i < to.words.size() && word != to.words[i]) ++i;
                          if (i == to.words.size())
                            throw ConfigError(file, key, "'" + word + "' is unknown",
                                              "use one of " + joined(to.words));
                          *to.value = static_cast<uint8_t>(i);
                        },
                        [&](std::vector<int64_t>* to) {
                          const auto whole = [&](const json& x) {
                            return x.is_number_integer() && (from.bounded(x), true);
                          };
                          *to = from.items("a list of whole numbers", whole).get<std::vector<int64_t>>();
                        },
                        [&](std::vector<double>* to) {
                          const auto number = [](const json& x) { return x.is_number(); };
                          *to = from.items("a list of numbers", number).get<std::vector<double>>();
                        },
                        [&](std::vector<std::string>* to) {
                          const auto word = [](const json& x) { return x.is_string(); };
                          *to = from.items("a list of words", word).get<std::vector<std::string>>();
                        }},
             member_);
}

void KeyRow::write(json& j) const {
  const Address at(key);
  json& to = j[at.section][at.name];
  std::visit(Overloaded{[&](const auto* value) { to = *value; },
                        [&](const int64_t* value) {
                          if (allowed_.word && *value == kWordNumber)
                            to = allowed_.word;
                          else
                            to = *value;
                        },
                        [&](const Word& w) { to = *w.value < w.words.size() ? w.words[*w.value] : ""; }},
             member_);
}

void KeyRow::check_number(const std::string& file, int64_t value) const {
  if (allowed_.word && value == kWordNumber) return;
  const bool below = static_cast<double>(value) < allowed_.low;
  if (!below && static_cast<double>(value) <= allowed_.high) return;
  const std::string bound = number_text(below ? allowed_.low : allowed_.high);
  throw ConfigError(file, key, "is " + std::to_string(value) + (below ? ", below " : ", above ") + bound,
                    allowed_.mend ? allowed_.mend : "give " + bound + (below ? " or more" : " or less"));
}

void KeyRow::check_number(const std::string& file, double value) const {
  const Allowed& a = allowed_;
  const auto refuse = [&](const std::string& what) { throw ConfigError(file, key, what, a.mend); };
  if (a.mend == nullptr) return;  // any number
  if (!a.in_f32) {
    if (!(a.with_low ? value >= a.low : value > a.low) || !(a.with_high ? value <= a.high : value < a.high))
      refuse("is not in " + values());
    return;
  }
  if (!(a.with_low ? value >= 0 : value > 0)) refuse(a.with_low ? "is negative" : "is not positive");
  constexpr auto least = static_cast<double>(std::numeric_limits<float>::min()),
                 most = static_cast<double>(std::numeric_limits<float>::max());
  if (value != 0 && (value < least || value > most))
    refuse("is outside of what 32 bits hold, 1.2e-38 to 3.4e38");
}

void KeyRow::check_text(const std::string& file, const std::string& value) const {
  if (allowed_.fits && !allowed_.fits(value))
    throw ConfigError(file, key, "'" + value + "' " + allowed_.lacks, allowed_.mend);
  bool known = allowed_.words.empty();
  for (const char* w : allowed_.words) known = known || value == w;
  if (!known)
    throw ConfigError(file, key, "'" + value + "' is unknown", "use one of " + joined(allowed_.words));
}

void KeyRow::check(const std::string& file) const {
  std::visit(Overloaded{[&](const int64_t* value) { check_number(file, *value); },
                        [&](const double* value) { check_number(file, *value); },
                        [&](const std::string* value) { check_text(file, *value); },
                        [&](const std::vector<int64_t>* list) {
                          for (const int64_t value : *list) check_number(file, value);
                        },
                        [&](const std::vector<double>* list) {
                          for (const double value : *list) check_number(file, value);
                        },
                        [&](const std::vector<std::string>* list) {
                          for (const std::string& value : *list) check_text(file, value);
                        },
                        [](const bool*) {}, [](const Word&) {}},
             member_);
}

std::string KeyRow::type() const {
  return std::visit(Overloaded{[](const int64_t*) { return "int"; }, [](const double*) { return "float"; },
                               [](const bool*) { return "bool"; }, [](const std::string*) { return "text"; },
                               [](const Word&) { return "text"; },
                               [](const std::vector<int64_t>*) { return "list of int"; },
                               [](const std::vector<double>*) { return "list of float"; },
                               [](const std::vector<std::string>*) { return "list of text"; }},
                    member_);
}

std::string KeyRow::values() const {
  if (const Word* word = std::get_if<Word>(&member_)) return joined(word->words, " | ");
  const bool number = std::holds_alternative<int64_t*>(member_) || std::holds_alternative<double*>(member_);
  const Allowed& a = allowed_;
  if (!number || (std::isinf(a.low) && std::isinf(a.high))) return "";
  const std::string word = a.word ? std::string(", or ") + a.word : "";
  if (std::isinf(a.high)) return (a.with_low ? ">= " : "> ") + number_text(a.low) + word;
  return (a.with_low ? "[" : "(") + number_text(a.low) + ", " + number_text(a.high) +
         (a.with_high ? "]" : ")");
}

}  // namespace isobar
