#include "bench/logs/forms/bars.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>

#include "bench/logs/log_text.h"

namespace isobar::logs {
namespace {

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

struct Bar {
  std::string name;  // in lower case: "epoch 1:"
  double done = 0, total = 0;
  std::string_view postfix;  // "1.98it/s, v_num=0, train_loss=0.125]"
};

/// "8/80" at the end of `text`, and its position; a total may be "?".
bool take_count(std::string_view text, Bar& bar) {
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

std::optional<Bar> bar_in(std::string_view line) {
  // "[00:05<00:45,": an elapsed time and the rest
  const size_t rest = line.find('<');
  const size_t bracket = line.rfind('[', rest);
  if (rest == std::string_view::npos || bracket == std::string_view::npos || bracket == 0 ||
      line.substr(bracket, rest - bracket).find(':') == std::string_view::npos)
    return std::nullopt;
  const size_t end = line.find_last_not_of(' ', bracket - 1);
  Bar bar;
  if (end == std::string_view::npos || !take_count(line.substr(0, end + 1), bar)) return std::nullopt;
  const size_t percent = line.find('%'), picture = line.find('|');
  size_t named = std::min({percent, picture, end});
  while (named > 0 && (is_digit(line[named - 1]) || line[named - 1] == ' ')) --named;
  bar.name = std::string(line.substr(0, named));
  for (char& c : bar.name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  bar.postfix = line.substr(rest);
  return bar;
}

/// "train_loss=0.125" of what follows the times
void take_postfix(std::string_view text, Quantities& out) {
  for (size_t comma = text.find(','); comma != std::string_view::npos; comma = text.find(',')) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ', comma + 1)));
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) return;
    const std::string_view key = text.substr(0, equals);
    const auto q = key.find(',') == std::string_view::npos ? quantity_of_key(key) : std::nullopt;
    const auto v = number_at(text.substr(equals + 1));
    // The bar counts steps; a logged one may be rounded.
    if (q && v && q->quantity != LogQuantity::step && q->quantity != LogQuantity::consumed_samples)
      out[q->quantity] = q->factor * *v;
  }
}

}  // namespace

std::optional<Quantities> BarReader::operator()(std::string_view line) {
  const std::optional<Bar> bar = bar_in(line);
  if (!bar) return std::nullopt;
  const auto says = [&](const char* word) { return bar->name.find(word) != std::string::npos; };
  const bool named = says("epoch") || says("train") || says("step") || says("iter");
  if (!named && !bar->name.empty()) return std::nullopt;
  if (says("valid") || says("generating") || says("checkpoint")) return std::nullopt;
  if (named && !named_) *this = {}, named_ = true;  // bars without a name were others
  if (!named && named_) return std::nullopt;
  if (total_ < 0) total_ = bar->total;
  if (!named && bar->total != total_) return std::nullopt;
  if (bar->done < last_) {
    const bool left_early = bar->done == 0 && 10 * last_ > total_;
    if (last_ < total_ && !left_early) return std::nullopt;  // drawn again
    offset_ += last_, total_ = bar->total;
  }
  last_ = bar->done;
  Quantities out;
  if (bar->done > 0) out[LogQuantity::step] = offset_ + bar->done;
  take_postfix(bar->postfix, out);
  out.drop_impossible();
  return out;
}

}  // namespace isobar::logs
