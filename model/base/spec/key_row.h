// One row for each key of a run configuration: path, member, allowed values, meaning. Reading, writing, the
// check of single values, suggestions for typing errors and configs/keys.md come from these rows.
//
//   for (const KeyRow& row : key_rows(spec)) row.read(json, file);   // spec_rows.h
//   KeyRow{"train.beta1", t.beta1, within("[)", 0, 1, "e.g. 0.9"), "Adam's decay of the first moment."}
#pragma once
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "model/base/spec/settings.h"

namespace isobar {

/// Values that a key may have, whatever the other keys are; for lists, values of their elements.
struct Allowed {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool with_low = true, with_high = true;
  bool in_f32 = false;         // 0, or what 32 bits hold with all their digits
  const char* mend = nullptr;  // of the error; nullptr: the bound that is exceeded
  const char* word = nullptr;  // taken beside whole numbers, as kWordNumber
  // Text:
  bool (*fits)(const std::string&) = nullptr;
  const char* lacks = nullptr;              // "is no name with a weight"
  std::span<const char* const> words = {};  // the only ones
};
/// Whole numbers
constexpr Allowed at_least(int64_t low, const char* mend = nullptr) {
  return {.low = static_cast<double>(low), .mend = mend};
}
constexpr Allowed at_least_or(int64_t low, const char* word) {
  return {.low = static_cast<double>(low), .word = word};
}
constexpr Allowed from_to(int64_t low, int64_t high, const char* mend = nullptr) {
  return {.low = static_cast<double>(low), .high = static_cast<double>(high), .mend = mend};
}
/// `low` and `high` are excluded where their side says so: within("[)", 0, 1, "e.g. 0.9")
constexpr Allowed within(const char (&sides)[3], double low, double high, const char* mend) {
  return {.low = low, .high = high, .with_low = sides[0] == '[', .with_high = sides[1] == ']', .mend = mend};
}
/// Numbers that become f32: smaller ones would count as 0 there
constexpr Allowed positive(const char* mend) {
  return {.low = 0, .with_low = false, .in_f32 = true, .mend = mend};
}
constexpr Allowed zero_or_positive(const char* mend) {
  return {.low = 0, .in_f32 = true, .mend = mend};
}
constexpr Allowed texts(bool (*fits)(const std::string&), const char* lacks, const char* mend) {
  return {.mend = mend, .fits = fits, .lacks = lacks};
}

class KeyRow {
 public:
  template <class T>
  KeyRow(const char* key, T& member, const char* help) : KeyRow(key, member, Allowed{}, help) {}
  template <class T>
  KeyRow(const char* key, T& member, const Allowed& allowed, const char* help)
      : key(key), help(help), allowed_(allowed), member_(member_of(member)) {}

  const char* key;   // "train.lr"
  const char* help;  // at most 25 words

  /// Takes the value from {"train": {"lr": 1e-3}}, if it is there. Throws ConfigError for a wrong type and an
  /// unknown word.
  void read(const nlohmann::json& j, const std::string& file) const;
  void write(nlohmann::json& j) const;
  /// Throws ConfigError for a value that is not allowed.
  void check(const std::string& file) const;

  std::string type() const;    // "int", "float", "bool", "text", "list of int" …
  std::string values() const;  // "adam | adamw | sgd", ">= 1", "> 0", "[0, 1)", or ""

 private:
  struct Word {  // a Setting
    uint8_t* value;
    std::span<const char* const> words;
  };
  using Member = std::variant<int64_t*, double*, bool*, std::string*, Word, std::vector<int64_t>*,
                              std::vector<double>*, std::vector<std::string>*>;
  template <class T>
  static Member member_of(T& member) {
    if constexpr (Setting<T>) {
      static_assert(sizeof(T) == 1);
      return Word{reinterpret_cast<uint8_t*>(&member), kWordsOf<T>};
    } else {
      return &member;
    }
  }
  void check_number(const std::string& file, int64_t value) const;
  void check_number(const std::string& file, double value) const;
  void check_text(const std::string& file, const std::string& value) const;

  Allowed allowed_;
  Member member_;
};
using KeyRows = std::vector<KeyRow>;

}  // namespace isobar
