#include "bench/logs/forms/free_line.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "bench/logs/log_text.h"

namespace isobar::logs {
namespace {

constexpr size_t kLongestFreeLine = 2000;  // bytes; no person reads a longer one

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '/' || c == '-';
}
bool is_digit_of_line(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

/// A number with the word before it and the unit behind it
struct Worded {
  std::string_view key, unit;
  double value = 0;
};

std::string_view word_before(std::string_view text) {
  size_t end = text.size();
  while (end > 0 && std::string_view(" :=#\t([\"'").find(text[end - 1]) != std::string_view::npos) --end;
  size_t begin = end;
  while (begin > 0 && is_letter(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

std::string_view word_behind(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  size_t end = begin;
  while (end < text.size() && is_letter(text[end])) ++end;
  return text.substr(begin, end - begin);
}

bool one_of(std::string_view word, std::initializer_list<std::string_view> all) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

void take(const Worded& w, Quantities& out) {
  const auto put = [&](LogQuantity q, double factor = 1) {
    if (!out.has(q)) out[q] = factor * w.value;
  };
  if (one_of(w.unit, {"samples/s", "samples/sec", "img/s", "images/s", "images/sec"}))
    return put(LogQuantity::samples_per_s);
  if (one_of(w.unit, {"tok/s", "tokens/s", "tokens/sec"})) return put(LogQuantity::tokens_per_s);
  if (one_of(w.unit, {"it/s", "iter/s", "iters/s", "steps/s"})) return put(LogQuantity::steps_per_s);
  // A time that adds up ("elapsed") is none of a step.
  const bool of_step =
      one_of(w.key, {"", "took", "in", "time", "step_time", "iter_time", "batch_time", "dt"});
  if (of_step && one_of(w.unit, {"ms", "msec"})) return put(LogQuantity::seconds, 1e-3);
  if (of_step && !w.key.empty() && one_of(w.unit, {"s", "sec", "seconds"})) return put(LogQuantity::seconds);
  if (w.key == "val" || w.key == "train") return;
  if (const auto q = quantity_of_key(w.key)) put(q->quantity, q->factor);
}

}  // namespace

std::optional<Quantities> free_line(std::string_view line) {
  if (line.size() > kLongestFreeLine || !looks_like_a_step(line)) return std::nullopt;
  Quantities out;
  for (size_t i = 0; i < line.size();) {
    const bool begins =
        (is_digit_of_line(line[i]) ||
         ((line[i] == '-' || line[i] == '.') && i + 1 < line.size() && is_digit_of_line(line[i + 1]))) &&
        (i == 0 || !is_letter(line[i - 1]) || line[i - 1] == '-' || line[i - 1] == '/');
    const std::string_view before = word_before(line.substr(0, i));
    const bool nan = !begins && !before.empty() &&
                     (line.substr(i).starts_with("nan") || line.substr(i).starts_with("inf")) && i > 0 &&
                     !is_letter(line[i - 1]);
    std::string_view behind;
    const auto v = begins || nan ? number_at(line.substr(i), &behind) : std::nullopt;
    if (!v) {
      ++i;
      continue;
    }
    take({before, word_behind(behind), *v}, out);
    i = line.size() - behind.size();
  }
  out.drop_impossible();
  const bool says_more = out.has(LogQuantity::loss) || out.has(LogQuantity::seconds) ||
                         out.has(LogQuantity::samples_per_s) || out.has(LogQuantity::tokens_per_s) ||
                         out.has(LogQuantity::steps_per_s);
  return out.has(LogQuantity::step) && says_more ? std::optional(out) : std::nullopt;
}

bool looks_like_a_step(std::string_view line) {
  static const std::array<std::string_view, 6> kWords = {"step", "Step", "STEP", "iter", "Iter", "poch"};
  for (const std::string_view word : kWords) {
    const size_t at = line.find(word);
    if (at != std::string_view::npos &&
        std::any_of(line.begin() + static_cast<std::ptrdiff_t>(at), line.end(), is_digit_of_line))
      return true;
  }
  return false;
}

}  // namespace isobar::logs
