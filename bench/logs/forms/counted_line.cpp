// Lines of trainings that count batches in brackets: timm, torchvision, mmcv and mmengine, Swin, PyTorch's
// ImageNet example.
//
//   Train: 0 [  50/1251 (  4%)]  Loss: 6.94 (6.95)  Time: 0.403s, 2539.40/s  (0.465s, 2201.13/s)  LR: 1e-06
//   Epoch: [0]  [  10/1251]  eta: 0:12:33  lr: 0.5  loss: 6.98 (6.98)  time: 0.600  data: 0.2  max mem: 5567
//   Epoch(train)   [1][  50/1251]  lr: 1e-04  eta: 2:03:04  time: 0.456  memory: 5567  loss: 6.93
//   Iter(train) [   50/80000]  lr: 1e-04  eta: 2:03:04  time: 0.456  memory: 5567  loss: 2.93
//   Train: [0/300][10/1251]	eta 0:24:00 lr 0.000001	time 0.4212 (1.1812)	loss 6.9353 (6.9403)	mem
//   9299MB
#include <algorithm>
#include <cctype>

#include "bench/logs/forms/forms.h"
#include "bench/logs/log_text.h"

namespace isobar::logs {
namespace {

/// "[ 50/1251 (  4%)]" or "[1]": a number, and of how many.
struct Bracket {
  double number = 0;
  std::optional<double> of;
};

std::string_view without_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text;
}

/// Takes a bracket off the begin of `text`.
std::optional<Bracket> take_bracket(std::string_view& text) {
  std::string_view rest = without_blanks(text);
  const size_t close = rest.find(']');
  if (!rest.starts_with('[') || close == std::string_view::npos) return std::nullopt;
  std::string_view behind;
  const auto number = number_at(rest.substr(1, close - 1), &behind);
  if (!number) return std::nullopt;
  Bracket out{*number, std::nullopt};
  if (behind = without_blanks(behind); behind.starts_with('/')) {
    out.of = number_at(behind.substr(1));
    if (!out.of) return std::nullopt;
  } else if (!behind.empty()) {
    return std::nullopt;
  }
  text = rest.substr(close + 1);
  return out;
}

/// The batch of all epochs, and the epoch, of a line that begins with one of these words.
struct Place {
  double step = 0;
  std::optional<double> epoch;
  std::string_view before;
};

std::optional<Place> place_in(std::string_view line) {
  for (const std::string_view iterations : {"Iter(train) ", "Iter ["})
    if (const size_t at = line.find(iterations); at != std::string_view::npos) {
      std::string_view rest = line.substr(line.find('[', at));
      const auto count = take_bracket(rest);
      return count && count->of ? std::optional(Place{count->number, std::nullopt, line.substr(0, at)})
                                : std::nullopt;
    }
  for (const std::string_view epochs : {"Train: ", "Epoch(train) ", "Epoch: [", "Epoch ["}) {
    const size_t at = line.find(epochs);
    if (at == std::string_view::npos) continue;
    std::string_view rest = line.substr(at + epochs.size() - (epochs.ends_with('[') ? 1 : 0));
    std::optional<Bracket> epoch = take_bracket(rest);
    if (!epoch && epochs == "Train: ")
      if (const auto n = number_at(rest, &rest)) epoch = Bracket{*n, std::nullopt};
    const auto count = epoch ? take_bracket(rest) : std::nullopt;
    if (!count || !count->of) return std::nullopt;
    const bool from_one = epochs == "Epoch(train) " || epochs == "Epoch [";  // mmcv and mmengine
    return Place{(epoch->number - (from_one ? 1 : 0)) * *count->of + count->number, epoch->number,
                 line.substr(0, at)};
  }
  return std::nullopt;
}

/// The number behind a whole word, in any case, and a colon or blanks; `rest`: the text behind it.
std::optional<double> number_of_word(std::string_view line, std::string_view word,
                                     std::string_view* rest = nullptr) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  for (auto at = line.begin();; ++at) {
    at = std::search(at, line.end(), word.begin(), word.end(), same);
    if (at == line.end()) return std::nullopt;
    const bool begins = at == line.begin() || std::string_view(" \t,").find(at[-1]) != std::string_view::npos;
    std::string_view behind = line.substr(static_cast<size_t>(at - line.begin()) + word.size());
    if (!begins || behind.empty() || std::string_view(": \t").find(behind[0]) == std::string_view::npos)
      continue;
    if (behind[0] == ':') behind.remove_prefix(1);
    if (const auto v = number_at(behind, rest)) return v;
  }
}

bool validates(std::string_view line) {
  for (const std::string_view word : {"Test:", "Epoch(val)", "Iter(val)"}) {
    const size_t at = line.find(word);
    if (at == std::string_view::npos) continue;
    std::string_view rest = line.substr(at + word.size());
    if (take_bracket(rest)) return true;
  }
  return false;
}

}  // namespace

std::optional<Quantities> counted_line(std::string_view line) {
  using enum LogQuantity;
  const std::optional<Place> place = place_in(line);
  if (place ? begins_validation(place->before) : validates(line)) return Quantities();
  if (!place) return std::nullopt;
  Quantities out;
  out[step] = place->step;
  out[epoch] = place->epoch;
  out[loss] = number_of_word(line, "loss");
  out[lr] = number_of_word(line, "lr");
  out[grad_norm] = number_of_word(line, "grad_norm");
  std::string_view behind;
  const auto has_unit = [&](const char* unit) {
    return behind.substr(std::min(behind.find_first_not_of(' '), behind.size())).starts_with(unit);
  };
  out[seconds] = number_of_word(line, "time", &behind);
  if (has_unit("ms")) *out[seconds] *= 1e-3;
  if (behind.starts_with("s,")) {  // "0.403s, 2539.40/s": of all ranks
    std::string_view unit;
    const auto rate = number_at(behind.substr(2), &unit);
    if (rate && unit.starts_with("/s")) out[samples_per_s] = rate;
  }
  for (const std::string_view memory : {"max mem", "memory", "mem"})
    if (const auto mib = number_of_word(line, memory, &behind); mib && !out.has(memory_bytes))
      out[memory_bytes] = (has_unit("G") ? kGiB : kMiB) * *mib;
  out.drop_impossible();
  return out.has(loss) || out.has(seconds) ? std::optional(out) : std::nullopt;
}

}  // namespace isobar::logs
