// Steps in progress bars of tqdm, alone or within Lightning and Hugging Face's Trainer, and of Keras 2 and 3,
// whose time is the mean of its epoch so far:
//
//   Epoch 1:  10%|█         | 8/80 [00:05<00:45,  1.98it/s, v_num=0, train_loss=0.125]
//   8/80 ━━━━━━━━━━ 8s 120ms/step - accuracy: 0.5000 - loss: 2.3000
//
// A training may draw other bars (of downloads, data sets, validation), and its own again and again. The bar
// of the training is named after it ("Epoch 1", "Train", "Step"), or has no name and the total of the first
// such bar. It counts on where it begins anew, as it does in each epoch. A bar around it counts epochs, and
// one of images or samples no steps. Keras' evaluate() draws as its fit() does, and the latter alone says
// "Epoch 1/3" before, unless it is of one epoch.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "bench/logs/forms/forms.h"
#include "bench/logs/log_text.h"
#include "bench/logs/quantities.h"

namespace isobar::logs {
namespace {

struct ProgressBar {
  std::string name;  // in lower case: "epoch 1:"
  double done = 0, total = 0;
  std::string_view postfix;  // "1.98it/s, v_num=0, train_loss=0.125]"

  bool says(const char* word) const { return name.find(word) != std::string::npos; }
};

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

/// "8/80" or "8it" at the end of `text`; a total may be "?".
bool take_count(std::string_view text, ProgressBar& bar) {
  if (text.ends_with("it")) {
    const size_t begin = text.find_last_not_of("0123456789", text.size() - 3) + 1;
    bar.done = number_at(text.substr(begin)).value_or(-1);
    return bar.done >= 0;
  }
  const size_t slash = text.rfind('/');
  if (slash == std::string_view::npos || slash + 1 == text.size()) return false;
  size_t begin = slash;
  while (begin > 0 && is_digit(text[begin - 1])) --begin;
  const std::string_view total = text.substr(slash + 1);
  if (begin == slash || (total != "?" && !std::all_of(total.begin(), total.end(), is_digit))) return false;
  bar.done = number_at(text.substr(begin, slash - begin)).value_or(-1);
  bar.total = total == "?" ? 0 : number_at(total).value_or(0);
  return bar.done >= 0;
}

std::optional<ProgressBar> bar_in(std::string_view line) {
  // "[00:05<00:45,": an elapsed time and the rest, which is missing without a total
  const size_t without = line.find("it ["), left = line.find('<');
  const size_t rest =
      left != std::string_view::npos || without == std::string_view::npos ? left : line.find(',', without);
  const size_t bracket = line.rfind('[', rest);
  if (rest == std::string_view::npos || bracket == std::string_view::npos || bracket == 0 ||
      line.substr(bracket, rest - bracket).find(':') == std::string_view::npos)
    return std::nullopt;
  const size_t end = line.find_last_not_of(' ', bracket - 1);
  ProgressBar bar;
  if (end == std::string_view::npos || !take_count(line.substr(0, end + 1), bar)) return std::nullopt;
  const size_t percent = line.find('%'), picture = line.find('|');
  size_t named = std::min({percent, picture, std::min(without, end)});
  while (named > 0 && (is_digit(line[named - 1]) || line[named - 1] == ' ')) --named;
  bar.name = lower_case(line.substr(0, named));
  bar.postfix = line.substr(rest);
  return bar;
}

/// True for a rate such as "850.0img/s" or "1.25s/sample"
bool counts_samples(std::string_view postfix) {
  const size_t comma = postfix.find(','), begin = comma == std::string_view::npos ? 0 : comma + 1;
  const std::string_view rate = postfix.substr(begin, postfix.find_first_of(",]", begin) - begin);
  for (const char* unit : {"img", "image", "sample", "example", "ex/", "/ex", "seq"})
    if (rate.find(unit) != std::string_view::npos) return true;
  return false;
}

/// "train_loss=0.125" of what follows the times
void take_postfix(std::string_view text, Quantities& out) {
  for (size_t comma = text.find(','); comma != std::string_view::npos; comma = text.find(',')) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ', comma + 1)));
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) return;
    const std::string_view key = text.substr(0, equals);
    const auto q = key.find(',') == std::string_view::npos ? quantity_of_key(key) : std::nullopt;
    const auto v = number_without_unit(text.substr(equals + 1));
    // The bar counts steps; a logged one may be rounded.
    if (q && v && q->quantity != LogQuantity::step && q->quantity != LogQuantity::consumed_samples)
      out[q->quantity] = q->factor * *v;
  }
}

/// "45/100 ━━━━━━ 6s 120ms/step - loss: 2.3000" and "45/Unknown - 6s - 120ms/step - loss: 2.3000"
std::optional<ProgressBar> keras_bar_in(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \b"), slash = line.find('/');
  const size_t loss = line.find(" - loss: ");
  if (begin == std::string_view::npos || loss == std::string_view::npos || slash > loss) return std::nullopt;
  std::string_view behind;
  const auto done = number_at(line.substr(begin), &behind);
  if (!done || !is_digit(line[begin]) || !behind.starts_with('/')) return std::nullopt;
  ProgressBar bar{.done = *done, .postfix = behind.substr(1)};
  bar.total = number_at(bar.postfix).value_or(0);
  const bool known = bar.total > 0 && bar.done <= bar.total;
  return known || bar.postfix.starts_with("Unknown") ? std::optional(bar) : std::nullopt;
}

/// "120ms/step" and " - loss: 2.3000" of what follows the count
void take_keras(std::string_view text, Quantities& out) {
  for (size_t dash = text.find(" - "); dash != std::string_view::npos; dash = text.find(" - ")) {
    text.remove_prefix(dash + 3);
    const size_t colon = text.find(": ");
    if (colon == std::string_view::npos) return;
    const auto q = quantity_of_key(text.substr(0, colon));
    const auto v = number_at(text.substr(colon + 2));
    if (q && v && q->quantity != LogQuantity::step) out[q->quantity] = q->factor * *v;
  }
}

/// The seconds of "120ms/step"; whole seconds are too coarse, and the time of a line with a validation's loss
/// includes the validation.
std::optional<double> keras_seconds(std::string_view text, const Quantities& q) {
  for (const auto& [unit, factor] : {std::pair{"ms/step", 1e-3}, {"us/step", 1e-6}}) {
    const size_t end = text.find(unit);
    if (end == std::string_view::npos || q.has(LogQuantity::valid_loss)) continue;
    size_t begin = end;
    while (begin > 0 && is_digit(text[begin - 1])) --begin;
    if (const auto v = number_at(text.substr(begin, end - begin))) return factor * *v;
  }
  return std::nullopt;
}

class BarReader {
 public:
  std::optional<Quantities> operator()(std::string_view line) {
    if (auto q = keras(line)) return q;
    const std::optional<ProgressBar> bar = bar_in(line);
    if (!bar || !is_of_training(*bar)) return std::nullopt;
    Count& c = drawn_;
    if (c.total < 0) c.total = bar->total;
    if (kind_ == Kind::unnamed && bar->total != c.total) return std::nullopt;
    if (bar->done < c.last) {
      const bool left_early = bar->done == 0 && 10 * c.last > c.total;
      if (c.last < c.total && !left_early) return std::nullopt;  // drawn again
      c.offset += c.last, c.total = bar->total;
    }
    c.last = bar->done;
    Quantities out;
    if (bar->done > 0)
      out[counts_samples(bar->postfix) ? LogQuantity::consumed_samples : LogQuantity::step] =
          c.offset + bar->done;
    take_postfix(bar->postfix, out);
    out.drop_impossible();
    return out;
  }

 private:
  enum class Kind : uint8_t { none, unnamed, epochs, named };  // of the training's bar, the best last

  std::optional<Quantities> keras(std::string_view line) {
    Count& c = keras_;
    if (line.starts_with("Epoch ") && line.find_first_not_of("0123456789/", 6) == std::string_view::npos) {
      c = {.offset = c.offset + c.last};
      in_epoch_ = true;
    }
    const std::optional<ProgressBar> bar = keras_bar_in(line);
    if (!bar || !in_epoch_) return std::nullopt;
    if (c.total < 0) c.total = bar->total;
    in_epoch_ = bar->total == c.total && bar->done >= c.last;
    if (!in_epoch_) return std::nullopt;
    c.last = bar->done;
    Quantities out;
    take_keras(bar->postfix, out);
    out[LogQuantity::step] = c.offset + bar->done;
    out[LogQuantity::seconds] = keras_seconds(bar->postfix, out);
    out.drop_impossible();
    return out;
  }
  /// True for the bar that counts the training's batches, or their samples; `drawn_` is of that bar.
  bool is_of_training(const ProgressBar& bar) {
    const bool named = bar.says("epoch") || bar.says("train") || bar.says("step") || bar.says("iter");
    if (!named && !bar.name.empty()) return false;
    if (bar.says("valid") || bar.says("generating") || bar.says("checkpoint") || begins_validation(bar.name))
      return false;
    const bool of_epochs = bar.says("epoch") && std::none_of(bar.name.begin(), bar.name.end(), is_digit);
    const Kind kind = of_epochs ? Kind::epochs : named ? Kind::named : Kind::unnamed;
    const Count& c = drawn_;
    const bool around =
        kind_ == Kind::epochs || (kind_ == Kind::unnamed && c.last == 0 && bar.total > c.total);
    if (kind == Kind::unnamed && !nested_ && around && c.last < c.total)
      drawn_ = {}, kind_ = kind, nested_ = true;
    else if (kind > kind_ && !(nested_ && of_epochs))  // bars before it were others
      drawn_ = {}, kind_ = kind;
    return kind == kind_;
  }

  /// The training's bar; total: -1 before it, 0 unknown.
  struct Count {
    double total = -1, offset = 0, last = 0;
  };
  Count drawn_, keras_;
  bool in_epoch_ = false;  // of Keras
  Kind kind_ = Kind::none;
  bool nested_ = false;  // an unnamed bar was drawn within one of epochs
};

}  // namespace

LineReader bar_lines() {
  return BarReader();
}

}  // namespace isobar::logs
