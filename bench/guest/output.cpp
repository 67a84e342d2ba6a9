#include "bench/guest/output.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "model/base/did_you_mean.h"
#include "model/base/error.h"

namespace isobar {
namespace {

using Numbers = std::map<std::string, double>;

/// The number at the begin of `text` after blanks, with thousands separators; `end`: what follows it.
std::optional<double> number_at(std::string_view text, std::string_view* end = nullptr) {
  while (!text.empty() && (text[0] == ' ' || text[0] == '\t')) text.remove_prefix(1);
  std::string digits;
  size_t i = 0;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ',' && i > 0 && i + 3 < text.size() && std::isdigit(static_cast<unsigned char>(text[i - 1])) &&
        std::isdigit(static_cast<unsigned char>(text[i + 1])) &&
        std::isdigit(static_cast<unsigned char>(text[i + 2])) &&
        std::isdigit(static_cast<unsigned char>(text[i + 3])))
      continue;
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-' && c != '+') break;
    digits += c;
  }
  char* stop = nullptr;
  const double value = std::strtod(digits.c_str(), &stop);
  if (digits.empty() || stop == digits.c_str()) return std::nullopt;
  if (end) {
    // Letters behind the number ("12ms") are left to what follows.
    const auto unread = static_cast<size_t>(digits.c_str() + digits.size() - stop);
    *end = text.substr(i - unread);
  }
  return value;
}

std::optional<double> after(const std::string& line, std::string_view words) {
  const size_t at = line.find(words);
  return at == std::string::npos ? std::nullopt : number_at(std::string_view(line).substr(at + words.size()));
}

void put(Numbers& to, const char* name, std::optional<double> value) {
  if (value) to[name] = *value;
}

std::optional<Numbers> json_line(const std::string& line) {
  const size_t begin = line.find('{');
  if (begin == std::string::npos) return std::nullopt;
  const auto j = nlohmann::json::parse(line.substr(begin), nullptr, false);
  if (!j.is_object()) return std::nullopt;
  Numbers out;
  const auto take = [&](const char* name, std::initializer_list<const char*> keys) {
    for (const char* key : keys)
      if (const auto at = j.find(key); at != j.end() && at->is_number()) out.emplace(name, at->get<double>());
  };
  take("step", {"step", "iteration", "iter", "global_step"});
  take("loss", {"loss", "train_loss", "train/loss", "lm loss"});
  take("seconds", {"seconds", "step_time", "step_s", "iter_time"});
  take("ms", {"ms", "step_ms", "step_time_ms"});
  take("samples_per_s", {"samples_per_s", "samples_per_second", "throughput"});
  take("tokens_per_s", {"tokens_per_s", "tokens_per_second", "tps"});
  return out.contains("step") ? std::optional(out) : std::nullopt;
}

std::optional<Numbers> megatron_line(const std::string& line) {
  const auto step = after(line, "iteration"), ms = after(line, "elapsed time per iteration (ms):");
  if (!step || !ms) return std::nullopt;
  Numbers out{{"step", *step}, {"ms", *ms}};
  put(out, "loss", after(line, "lm loss:"));
  return out;
}

std::optional<Numbers> torchtitan_line(const std::string& line) {
  const auto step = after(line, "step:"), loss = after(line, "loss:");
  if (!step || !loss) return std::nullopt;
  return Numbers{{"step", *step}, {"loss", *loss}};  // tps is a mean per device since the last line
}

// "…| 10/100 [00:05<00:45,  1.98it/s, v_num=0, train_loss=0.1]"
std::optional<Numbers> tqdm_line(const std::string& line) {
  const size_t bracket = line.find(" ["), slash = line.rfind('/', bracket);
  if (bracket == std::string::npos || slash == std::string::npos ||
      line.find('<', bracket) == std::string::npos)
    return std::nullopt;
  size_t begin = slash;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(line[begin - 1]))) --begin;
  const auto step = number_at(std::string_view(line).substr(begin));
  if (!step || begin == slash) return std::nullopt;
  Numbers out{{"step", *step}};
  for (const char* name : {"train_loss=", "loss="})
    if (!out.contains("loss")) put(out, "loss", after(line, name));
  return out;
}

/// Hugging Face's Trainer prints a dict of Python; its bar has the step.
std::optional<Numbers> trainer_line(const std::string& line) {
  if (line.find("{'loss':") == std::string::npos) return std::nullopt;
  Numbers out;
  put(out, "loss", after(line, "{'loss':"));
  return out;
}

constexpr std::array kNames = {"step", "loss", "seconds", "ms", "samples_per_s", "tokens_per_s"};

/// A line of the user's: text, numbers by name, and * for anything.
class Pattern {
 public:
  Pattern(const std::string& text, const std::string& file) {
    std::string words;
    const auto flush = [&] {
      if (!words.empty()) pieces_.push_back({Piece::words, words});
      words.clear();
    };
    for (size_t i = 0; i < text.size(); ++i) {
      const size_t end = text[i] == '{' ? text.find('}', i) : std::string::npos;
      if (end != std::string::npos) {
        flush();
        const std::string name = text.substr(i + 1, end - i - 1);
        if (std::find(kNames.begin(), kNames.end(), name) == kNames.end())
          throw ConfigError(file, "run.reads", "has {" + name + "}, which is no number of a step",
                            "use {step}, {loss}, {seconds}, {ms}, {samples_per_s} or {tokens_per_s}");
        pieces_.push_back({Piece::number, name});
        i = end;
      } else if (text[i] == '*') {
        flush();
        pieces_.push_back({Piece::anything, ""});
      } else {
        words += text[i];
      }
    }
    flush();
  }

  std::optional<Numbers> operator()(const std::string& line) const {
    std::string_view rest = line;
    Numbers out;
    bool anywhere = true;  // what comes first may begin anywhere in the line
    for (const Piece& p : pieces_) {
      if (p.kind == Piece::anything) {
        anywhere = true;
      } else if (p.kind == Piece::words) {
        const size_t at = rest.find(p.text);
        if (at == std::string_view::npos || (!anywhere && at != 0)) return std::nullopt;
        rest.remove_prefix(at + p.text.size());
        anywhere = false;
      } else {
        std::optional<double> value = number_at(rest, &rest);
        for (; anywhere && !value && !rest.empty(); value = number_at(rest, &rest)) rest.remove_prefix(1);
        if (!value) return std::nullopt;
        out[p.text] = *value;
        anywhere = false;
      }
    }
    return out;
  }

 private:
  struct Piece {
    enum Kind : uint8_t { words, number, anything } kind;
    std::string text;
  };
  std::vector<Piece> pieces_;
};

}  // namespace

OutputReader::OutputReader(const std::string& reads, int64_t batch, int64_t tokens, const std::string& file)
    : batch_(static_cast<double>(batch)), tokens_(static_cast<double>(tokens)) {
  const std::vector<std::pair<std::string, Form>> named = {{"json", json_line},
                                                           {"megatron", megatron_line},
                                                           {"torchtitan", torchtitan_line},
                                                           {"tqdm", trainer_line},
                                                           {"tqdm", tqdm_line}};
  for (const auto& [name, form] : named)
    if (reads == "auto" || reads == name) forms_.push_back(form);
  if (!forms_.empty()) return;
  if (reads.find("{step}") == std::string::npos)
    throw ConfigError(
        file, "run.reads", "is '" + reads + "', which is no form of output and has no {step}",
        did_you_mean(reads, {"auto", "json", "megatron", "torchtitan", "tqdm"},
                     "or write a line as the program prints it: \"step {step} loss {loss} * {ms} ms\""));
  forms_.emplace_back(Pattern(reads, file));
}

std::optional<OutputStep> OutputReader::line(const std::string& text, double now) {
  for (const Form& form : forms_) {
    const std::optional<Numbers> n = form(text);
    if (n && !n->contains("step") && n->contains("loss")) loss_ = n->at("loss");
    if (!n || !n->contains("step")) continue;
    const auto step = static_cast<int64_t>(std::llround(n->at("step")));
    if (step <= last_step_ || step < 0) return std::nullopt;  // a bar drawn again, another rank's line
    OutputStep out{.step = step};
    const auto get = [&](const char* name) {
      const auto at = n->find(name);
      return at == n->end() ? 0 : at->second;
    };
    out.loss = n->contains("loss") ? get("loss") : std::exchange(loss_, std::nullopt);
    if (get("seconds") > 0)
      out.seconds = get("seconds");
    else if (get("ms") > 0)
      out.seconds = get("ms") * 1e-3;
    else if (get("samples_per_s") > 0)
      out.seconds = batch_ / get("samples_per_s");
    else if (get("tokens_per_s") > 0 && tokens_ > 0)
      out.seconds = batch_ * tokens_ / get("tokens_per_s");
    else if (last_at_ >= 0 && now > last_at_)
      out.seconds = (now - last_at_) / static_cast<double>(step - last_step_);
    last_step_ = step;
    last_at_ = now;
    return out;
  }
  return std::nullopt;
}

}  // namespace isobar
