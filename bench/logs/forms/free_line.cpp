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

/// A number with the two words before it and the unit behind it
struct Worded {
  std::string_view before, key, unit;
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

bool is_validation(std::string_view word) {
  std::string lower(word);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return one_of(lower, {"val", "valid", "validation", "eval", "test"});
}

/// "348K": what such a letter multiplies a number by, 1 for other units
double times(std::string_view unit) {
  if (unit == "K" || unit == "k") return 1e3;
  return unit == "M" ? 1e6 : unit == "B" || unit == "G" ? 1e9 : unit == "T" ? 1e12 : 1;
}

/// The seconds of a unit of time; 1: of none, or another word
double seconds_of(std::string_view unit) {
  if (unit == "ms" || unit == "msec") return 1e-3;
  if (unit == "us" || unit == "usec" || unit == "\xc2\xb5s") return 1e-6;
  return unit == "ns" ? 1e-9 : unit == "min" ? 60 : 1;
}

void take(const Worded& w, Quantities& out) {
  const double factor_of_letter = times(w.unit);
  const auto put = [&](LogQuantity q, double factor = 1) {
    if (!out.has(q)) out[q] = factor * w.value;
  };
  if (one_of(w.unit, {"samples/s", "samples/sec", "img/s", "images/s", "images/sec"}))
    return put(LogQuantity::samples_per_s);
  if (one_of(w.unit, {"tok/s", "tok/sec", "tokens/s", "tokens/sec"})) return put(LogQuantity::tokens_per_s);
  if (one_of(w.unit, {"it/s", "iter/s", "iters/s", "steps/s"})) return put(LogQuantity::steps_per_s);
  // A time that adds up ("elapsed") is none of a step.
  const bool of_step =
      !one_of(w.before, {"elapsed", "Elapsed", "total", "Total"}) &&
      one_of(w.key, {"", "took", "in", "time", "step_time", "step_avg", "iter_time", "batch_time", "dt"});
  if (of_step && one_of(w.unit, {"ms", "msec"})) return put(LogQuantity::seconds, 1e-3);
  if (of_step && !w.key.empty() && one_of(w.unit, {"s", "sec", "seconds"})) return put(LogQuantity::seconds);
  // "val loss 3.9", and "loss train: 3.5, val: 3.9"
  std::string key(w.key);
  if (w.key == "train" || w.key == "val") {
    if (w.key == "train" && w.before != "loss") return;
    if (w.key == "val" && !out.has(LogQuantity::loss)) return;
    key = w.key == "train" ? "loss" : "val_loss";
  } else if (is_validation(w.before)) {
    key = "val_" + key;
  }
  const auto q = quantity_of_key(key);
  if (!q) return;
  const bool bytes = q->quantity == LogQuantity::memory_bytes;
  const bool count = q->quantity == LogQuantity::step || q->quantity == LogQuantity::consumed_samples;
  if (factor_of_letter != 1 && (count || bytes)) return;  // "12.6K" is rounded; "5123M" has its own unit
  if (q->quantity == LogQuantity::step) return out.put_step(w.key, w.value);
  const bool time = q->quantity == LogQuantity::seconds && q->factor == 1;
  put(q->quantity, factor_of_letter * q->factor * (time ? seconds_of(w.unit) : 1));
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
    const std::string_view earlier = line.substr(0, static_cast<size_t>(before.data() - line.data()));
    take({word_before(earlier), before, word_behind(behind), *v}, out);
    i = line.size() - behind.size();
  }
  out.drop_impossible();
  const bool says_more = out.has(LogQuantity::loss) || out.has(LogQuantity::valid_loss) ||
                         out.has(LogQuantity::seconds) || out.has(LogQuantity::samples_per_s) ||
                         out.has(LogQuantity::tokens_per_s) || out.has(LogQuantity::steps_per_s);
  // A line an epoch, of a program that names no steps
  const bool epoch =
      out.has(LogQuantity::epoch) && out.has(LogQuantity::loss) && out.has(LogQuantity::valid_loss);
  return epoch || (out.has(LogQuantity::step) && says_more) ? std::optional(out) : std::nullopt;
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
