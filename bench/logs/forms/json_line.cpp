#include "bench/logs/forms/json_line.h"

#include <cmath>

#include "bench/logs/log_text.h"
#include "model/base/text/json.h"

namespace isobar::logs {
namespace {

using nlohmann::json;

/// Python's NaN and Infinity, which JSON does not have, as texts
std::string with_quoted_nans(std::string_view text) {
  std::string out;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    bool found = false;
    for (const std::string_view word : {"NaN", "-Infinity", "Infinity"})
      if (!quoted && !found && text.substr(i).starts_with(word)) {
        out.append("\"").append(word).append("\"");
        i += word.size() - 1;
        found = true;
      }
    if (!found) out += text[i];
  }
  return out;
}

/// Takes the numbers of an object; `prefix`: "val_" within one of a validation.
void collect(const json& j, const std::string& path, const std::string& prefix, Quantities& to) {
  for (const auto& [key, value] : j.items()) {
    const std::string at = path.empty() ? key : path + "/" + key;
    if (value.is_object()) {
      collect(value, at, is_validation(key) ? "val_" : prefix, to);
      continue;
    }
    auto q = quantity_of_key(at);
    if (!q) q = quantity_of_key(prefix + key);
    const bool counts = q && q->quantity == LogQuantity::step;
    if (!q || (to.has(q->quantity) && !counts)) continue;
    const std::optional<double> v = value.is_number() ? std::optional(value.get<double>())
                                    : value.is_string()
                                        ? number_without_unit(value.get_ref<const std::string&>())
                                        : std::nullopt;
    if (v && counts)
      to.put_step(key, *v);
    else if (v)
      to[q->quantity] = q->factor * *v;
  }
}

}  // namespace

std::optional<Quantities> json_line(std::string_view line) {
  const size_t begin = line.find('{');
  if (begin == std::string_view::npos || line.find('"', begin) == std::string_view::npos) return std::nullopt;
  const json j = parse_json(with_quoted_nans(line.substr(begin)));
  if (!j.is_object()) return std::nullopt;
  Quantities out;
  collect(j, "", "", out);
  out.drop_impossible();
  // {"split": "val"}, {"mode": "eval"}; a run may be called "test".
  bool validates = false;
  for (const char* key :
       {"split", "subset", "set", "mode", "phase", "stage", "loop", "kind", "type", "prefix"})
    validates = validates || is_validation(text_in(j, key));
  if (validates) out.keep_validation();
  return out.has(LogQuantity::step) ? std::optional(out) : std::nullopt;
}

std::optional<double> number_in(const json& j, const char* key) {
  const auto at = j.is_object() ? j.find(key) : j.end();
  if (!j.is_object() || at == j.end() || !at->is_number()) return std::nullopt;
  return at->get<double>();
}

std::optional<MlperfEvent> mlperf_event(std::string_view line) {
  const auto text = text_after(line, ":::MLLOG");
  if (!text) return std::nullopt;
  const json j = parse_json(*text);
  if (!j.is_object() || !j.contains("key") || !j["key"].is_string()) return std::nullopt;
  return MlperfEvent{j["key"].get<std::string>(), 1e-3 * number_in(j, "time_ms").value_or(0),
                     j.value("value", json()), j.value("metadata", json())};
}

std::optional<double> mlperf_count(const MlperfEvent& e, bool stop) {
  // "first_epoch_num" is the block's start, "epoch_count" its length.
  const auto first = number_in(e.metadata, "first_epoch_num");
  if (stop && first) {
    const auto more = number_in(e.metadata, "epoch_count");
    return more ? std::optional(*first + *more) : std::nullopt;
  }
  for (const char* key : {"samples_count", "epoch_num"})
    if (const auto n = number_in(e.metadata, key)) return n;
  return first;
}

namespace {

/// Steps in MLPerf's events: blocks with counts, and tracked_stats.
class MlperfReader {
 public:
  MlperfReader(double batch, double tokens) : batch_(batch), tokens_(tokens) {}
  std::optional<Quantities> operator()(std::string_view line) {
    const std::optional<MlperfEvent> e = mlperf_event(line);
    if (!e) return std::nullopt;
    Quantities out;
    if (e->key == "global_batch_size" && e->value.is_number()) {
      out[LogQuantity::batch] = e->value.get<double>();
      batch_ = *out[LogQuantity::batch] > 0 ? *out[LogQuantity::batch] : batch_;
    } else if (e->key == "block_start") {
      begin_ = e;
    } else if (e->key == "block_stop") {
      return block(*e);
    } else if (e->key == "tracked_stats") {
      out[LogQuantity::seconds] = number_in(e->value, "train_step_time");
      for (const char* key : {"reduced_train_loss", "train_loss", "loss"})
        if (!out.has(LogQuantity::loss)) out[LogQuantity::loss] = number_in(e->value, key);
      if (const auto n = number_in(e->metadata, "step")) out[LogQuantity::consumed_samples] = samples(*n);
    } else if ((e->key == "eval_accuracy" || e->key == "eval_error") && e->value.is_number()) {
      // Language models call their loss an accuracy.
      const double v = e->value.get<double>();
      out[e->key == "eval_accuracy" && v <= 1 ? LogQuantity::valid_accuracy : LogQuantity::valid_loss] = v;
    }
    out.drop_impossible();
    return out.any() ? std::optional(out) : std::nullopt;
  }

 private:
  std::optional<Quantities> block(const MlperfEvent& stop) {
    const auto from = begin_ ? mlperf_count(*begin_, false) : std::nullopt, to = mlperf_count(stop, true);
    if (!from || !to || !(*to > *from) || !(batch_ > 0)) return std::nullopt;
    Quantities out;
    const double steps = (samples(*to) - samples(*from)) / batch_;
    out[LogQuantity::consumed_samples] = samples(*to);
    out[LogQuantity::seconds] = (stop.seconds - begin_->seconds) / steps;
    begin_.reset();
    return out;
  }
  double samples(double counted) const {
    const double both = batch_ * tokens_;
    return both > 0 && std::fmod(counted, both) == 0 ? counted / tokens_ : counted;
  }
  double batch_, tokens_;  // tokens of a sample; 0: not a net of tokens
  std::optional<MlperfEvent> begin_;
};

}  // namespace

LineReader mlperf_lines(double batch, double tokens) {
  return MlperfReader(batch, tokens);
}

}  // namespace isobar::logs
