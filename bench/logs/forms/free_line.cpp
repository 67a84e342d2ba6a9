// Lines of no known program, whose words name their numbers: "step 12 loss 0.53 took 33.1 ms",
// "[iter 40/1000] loss=0.2 lr=1e-4 128.5 samples/s".
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string>
#include <vector>

#include "bench/logs/forms/forms.h"
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
  std::string_view behind, ahead;  // all of the line
  double letter = 1;               // "65.5k tokens/s": 1000, which the value does not have
};

/// The word before a number: "loss" of "loss: ", "loss = " and "loss is "
std::string_view word_before(std::string_view text) {
  const auto end_of_word = [&] { return text.find_last_not_of(" :=#\t([\"'") + 1; };  // npos + 1 is 0
  text = text.substr(0, end_of_word());
  if (text.ends_with(" is")) text.remove_suffix(3), text = text.substr(0, end_of_word());
  size_t begin = text.size();
  while (begin > 0 && is_letter(text[begin - 1])) --begin;
  return text.substr(begin);
}

bool one_of(std::string_view word, std::initializer_list<std::string_view> all) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

/// The rate or time of a step that a unit names, behind its number or before it ("steps/sec: 4.0").
std::optional<QuantityIn> rate_of(std::string_view unit) {
  using enum LogQuantity;
  if (one_of(unit, {"samples/s", "samples/sec", "img/s", "images/s", "images/sec"}))
    return QuantityIn{samples_per_s};
  if (one_of(unit, {"tok/s", "tok/sec", "tokens/s", "tokens/sec"})) return QuantityIn{tokens_per_s};
  if (one_of(unit, {"it/s", "iter/s", "iters/s", "steps/s", "steps/sec"})) return QuantityIn{steps_per_s};
  if (one_of(unit, {"s/it", "s/iter", "s/step", "sec/it", "sec/iter", "sec/step"}))
    return QuantityIn{seconds};
  if (one_of(unit, {"ms/it", "ms/iter", "ms/step"})) return QuantityIn{seconds, 1e-3};
  return std::nullopt;
}

/// The unit behind a number, also in brackets; none where it is the key of the next: "64 tok/s: 65,536", or
/// "mfu 40 tok/s 65,536" where the number has a key itself.
std::string_view unit_behind(std::string_view text, bool keyed) {
  const auto of_unit = [](char c) { return is_letter(c) || static_cast<unsigned char>(c) >= 0x80; };  // "µs"
  const size_t begin = std::min(text.find_first_not_of(" (["), text.size());
  size_t end = begin;
  while (end < text.size() && of_unit(text[end])) ++end;
  const std::string_view unit = text.substr(begin, end - begin);
  const size_t next = text.find_first_not_of(" :=", end);
  const bool number = end < text.size() && next < text.size() && is_digit_of_line(text[next]);
  const bool key = number && (text[end] == ':' || text[end] == '=' || (keyed && begin > 0 && rate_of(unit)));
  return key ? std::string_view() : unit;
}

/// "348K": what such a letter multiplies a number by, 1 for other units
double times(std::string_view unit) {
  if (unit == "K" || unit == "k") return 1e3;
  return unit == "M" ? 1e6 : unit == "B" || unit == "G" ? 1e9 : unit == "T" ? 1e12 : 1;
}

/// The seconds of a unit of time; none: another word
std::optional<double> seconds_of(std::string_view unit) {
  if (one_of(unit, {"s", "sec", "secs", "second", "seconds"})) return 1;
  if (one_of(unit, {"ms", "msec", "msecs", "millisecond", "milliseconds"})) return 1e-3;
  // The micro sign and the Greek letter
  if (one_of(unit, {"us", "usec", "usecs", "\xc2\xb5s", "\xce\xbcs", "microseconds"})) return 1e-6;
  if (one_of(unit, {"ns", "nanoseconds"})) return 1e-9;
  if (one_of(unit, {"m", "min", "mins", "minute", "minutes"})) return 60;
  return one_of(unit, {"h", "hr", "hrs", "hour", "hours"}) ? std::optional(3600.0) : std::nullopt;
}

/// The seconds of a time as "1m02s", "1:02.5" or with a unit that is not known have no factor.
std::optional<double> seconds_behind(const Worded& w) {
  const char next = w.behind.empty() ? ' ' : w.behind[0];
  const char last = w.behind.size() > w.unit.size() ? w.behind[w.unit.size()] : ' ';
  const bool glued = !w.unit.empty() && w.unit[0] != '/' && w.behind.starts_with(w.unit);
  if (next == ':' || (glued && is_digit_of_line(last))) return std::nullopt;
  const auto factor = seconds_of(w.unit);
  return factor || glued ? factor : 1;
}

/// The quantity that a unit names, of a number whose key says none.
std::optional<QuantityIn> quantity_of_unit(const Worded& w) {
  using enum LogQuantity;
  for (const std::string_view unit : {w.unit, w.key})
    if (const auto rate = rate_of(unit)) return rate;
  // A time that adds up ("elapsed") or of a part ("data time") is none of a step.
  const bool of_step =
      one_of(w.key, {"", "step_time", "step_avg", "iter_time", "batch_time", "dt"}) ||
      (one_of(w.key, {"took", "in", "time"}) &&
       one_of(lower_case(w.before), {"", "step", "iter", "iteration", "batch", "avg", "average", "mean",
                                     "nan", "inf", "done", "finished", "completed"}));
  const auto factor = of_step && seconds_of(w.unit) ? seconds_behind(w) : std::nullopt;
  const bool says_so = factor && (*factor < 1 || (*factor == 1 && !w.key.empty()));
  return says_so ? std::optional(QuantityIn{seconds, *factor}) : std::nullopt;
}

/// The quantity that the words before a number name: "val loss 3.9", "loss train: 3.5, val: 3.9".
std::optional<QuantityIn> quantity_of_words(const Worded& w, const Quantities& out) {
  if (w.key == "train") return w.before == "loss" ? quantity_of_key("loss") : std::nullopt;
  if (w.key == "val") return out.has(LogQuantity::loss) ? quantity_of_key("val_loss") : std::nullopt;
  const std::optional<QuantityIn> q = quantity_of_key(w.key);
  if (q && q->quantity == LogQuantity::step) return q;
  return is_validation(w.before) ? quantity_of_key("val_" + std::string(w.key)) : q;
}

/// True for the unit of a throughput that is none of samples: "TFLOPS", "tokens/s/gpu"
bool is_other_rate(std::string_view unit) {
  return unit.find('/') != std::string_view::npos || lower_case(unit).find("flop") != std::string::npos;
}

/// True for "step: 35.99" and "step=25ms", beside times of other parts
bool is_time_of_step(const Worded& w) {
  const auto factor = seconds_of(w.unit);
  return w.value != std::floor(w.value) || (factor && (*factor < 1 || w.behind.starts_with(w.unit)));
}

/// "/600" and " of 600" behind a step
std::optional<double> total_behind(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  for (const std::string_view word : {"/", "of "})
    if (text.starts_with(word)) return number_at(text.substr(word.size()));
  return std::nullopt;
}

void take(const Worded& w, Quantities& out) {
  const auto put = [&](const QuantityIn& q, double factor) {
    if (!out.has(q.quantity)) out[q.quantity] = factor * q.factor * w.value;
  };
  const std::optional<QuantityIn> q = quantity_of_words(w, out);
  const bool timed = q && q->quantity == LogQuantity::seconds;
  const bool vague = !q || lower_case(w.key) == "throughput";
  if (vague || timed)
    if (const auto by_unit = quantity_of_unit(w); by_unit && (vague || by_unit->quantity == q->quantity))
      return put(*by_unit, w.letter);
  if (!q || (vague && is_other_rate(w.unit))) return;
  const bool count = q->quantity == LogQuantity::step || q->quantity == LogQuantity::consumed_samples;
  // "12.6K" is rounded; "5123M" has its own unit
  if (w.letter != 1 && (count || q->quantity == LogQuantity::memory_bytes)) return;
  if (q->quantity == LogQuantity::step) {
    if (is_time_of_step(w)) return;
    if (!out.has(LogQuantity::step)) out[LogQuantity::steps_in_all] = total_behind(w.behind);
    return out.put_step(w.key, w.value);
  }
  const auto unit = timed && q->factor == 1 ? seconds_behind(w) : 1;
  if (unit) put(*q, w.letter * *unit);
}

/// True where a number may begin; "nan" and "inf" do behind a word alone.
bool begins_number(std::string_view line, size_t i, std::string_view before) {
  const std::string_view rest = line.substr(i);
  const bool sign = (line[i] == '-' || line[i] == '.') && rest.size() > 1 && is_digit_of_line(rest[1]);
  const char last = i == 0 ? ' ' : line[i - 1];
  if (is_digit_of_line(line[i]) || sign) return !is_letter(last) || last == '-' || last == '/';
  return (rest.starts_with("nan") || rest.starts_with("inf")) && i > 0 && !before.empty() && !is_letter(last);
}

/// The numbers of a line, but percentages ("Eval step:  30%|###   |") and lines of sources
/// ("trainer:step:57").
std::vector<Worded> numbers_in(std::string_view line) {
  std::vector<Worded> out;
  for (size_t i = 0; i < line.size();) {
    const std::string_view ahead = line.substr(0, i), key = word_before(ahead);
    std::string_view behind;
    const auto v = begins_number(line, i, key) ? number_at(line.substr(i), &behind) : std::nullopt;
    if (!v) {
      ++i;
      continue;
    }
    const std::string_view earlier = line.substr(0, static_cast<size_t>(key.data() - line.data()));
    const bool source = ahead.ends_with(':') && earlier.ends_with(':');
    if (!source && !behind.starts_with('%')) {
      std::string_view unit = unit_behind(behind, !key.empty());
      const double letter = times(unit);
      if (letter != 1) unit = unit_behind(behind.substr(behind.find(unit) + unit.size()), !key.empty());
      out.push_back({word_before(earlier), key, unit, *v, behind, ahead, letter});
    }
    i = line.size() - behind.size();
  }
  return out;
}

/// True for "aux loss 0.01", which is the training's loss only where no other is.
bool is_part_of_loss(const Worded& w) {
  const std::string before = lower_case(w.before);
  return lower_case(w.key) == "loss" && std::any_of(before.begin(), before.end(), ::isalpha) &&
         !is_validation(before) &&
         !one_of(before, {"train", "training", "total", "lm", "mean", "avg", "average"});
}

/// True for "rollout step 2", "micro step 3": no steps of the training.
bool is_within_step(const Worded& w) {
  const auto q = quantity_of_key(w.key);
  return q && q->quantity == LogQuantity::step &&
         one_of(lower_case(w.before),
                {"rollout", "micro", "accumulation", "accum", "inner", "sub", "time", "lead", "forecast",
                 "diffusion", "denoising", "sampling", "ode", "warmup"});
}

}  // namespace

std::optional<Quantities> free_line(std::string_view line) {
  if (line.size() > kLongestFreeLine || !looks_like_a_step(line)) return std::nullopt;
  Quantities out;
  std::string_view before_step;
  std::optional<double> part_of_loss;
  for (const Worded& w : numbers_in(line)) {
    if (is_within_step(w)) continue;
    if (is_part_of_loss(w)) {
      if (!part_of_loss) part_of_loss = w.value;
      continue;
    }
    const bool numbered = out.has(LogQuantity::step);
    take(w, out);
    if (!numbered && out.has(LogQuantity::step)) before_step = w.ahead;
  }
  if (!out.has(LogQuantity::loss)) out[LogQuantity::loss] = part_of_loss;
  out.drop_impossible();
  // The time beside a validation's loss alone is none of a step.
  const bool trained = out.has(LogQuantity::loss), validated = out.has(LogQuantity::valid_loss);
  if (trained != validated && (validated || begins_validation(before_step))) out.keep_validation();
  const bool says_more = out.has(LogQuantity::loss) || out.has(LogQuantity::valid_loss) ||
                         out.has(LogQuantity::seconds) || out.has(LogQuantity::samples_per_s) ||
                         out.has(LogQuantity::tokens_per_s) || out.has(LogQuantity::steps_per_s);
  // A line an epoch, of a program that names no steps
  const bool epoch = out.has(LogQuantity::epoch) && out.has(LogQuantity::valid_loss);
  return epoch || (out.has(LogQuantity::step) && says_more) ? std::optional(out) : std::nullopt;
}

size_t step_word_in(std::string_view line) {
  static const std::array<std::string_view, 6> kWords = {"step", "Step", "STEP", "iter", "Iter", "poch"};
  size_t first = std::string_view::npos;
  for (const std::string_view word : kWords) first = std::min(first, line.find(word));
  return first;
}

bool looks_like_a_step(std::string_view line) {
  const size_t at = step_word_in(line);
  return at != std::string_view::npos &&
         std::any_of(line.begin() + static_cast<std::ptrdiff_t>(at), line.end(), is_digit_of_line);
}

}  // namespace isobar::logs
