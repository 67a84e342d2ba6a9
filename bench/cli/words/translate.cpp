#include "bench/cli/words/translate.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "model/base/names/other_names.h"
#include "model/base/spec/spec_keys.h"
#include "model/base/system/shell_quoted.h"

namespace isobar::cli {
namespace {

// The key with this last part, "" where there is none or several
std::string key_ending_in(std::string name) {
  name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
  std::replace(name.begin(), name.end(), '-', '_');
  std::string found;
  for (const SpecKey& k : spec_keys()) {
    if (k.key.substr(k.key.find('.') + 1) != name || k.key == found) continue;
    if (!found.empty()) return "";
    found = k.key;
  }
  return found;
}

bool number_above_zero(const std::string& text) {
  return std::strtoll(text.c_str(), nullptr, 10) > 0;
}

class Translator {
 public:
  Translator(std::string name, const CLI::App& command) : name_(std::move(name)), command_(command) {
    out_.line = name_;
  }

  bool takes_keys() const { return sweeps() || command_.get_option_no_throw("--set") != nullptr; }
  const CLI::Option* own(const std::string& word) const {
    const CLI::Option* o = command_.get_option_no_throw(word.substr(0, word.find('=')));
    return o && word.starts_with("-") ? o : nullptr;
  }
  // Options of the command stay as they are; an assignment counts as given.
  void keep(const std::string& word) {
    kept_.push_back(word);
    const std::string option = word.substr(0, word.find('='));
    if (kept_.size() > 1 && kept_[kept_.size() - 2] == "--ranks") quantities_["ranks"] = word;
    if (option == "--ranks" && word != option) quantities_["ranks"] = word.substr(option.size() + 1);
    const bool assigns = kept_.size() > 1 && kept_[kept_.size() - 2] == "--set";
    if (assigns || (sweeps() && option != word)) given_[option] = word.substr(option.size() + 1);
  }
  void positional(const std::string& word) {
    if (sweeps() && word.find('=') != std::string::npos) return keep(word);
    positionals_.push_back(word);
  }
  // False: unknown
  bool translate(const std::string& option, const std::string& value) {
    std::optional<NamedElsewhere> found = named_elsewhere(option, value);
    if (!found) {
      const std::string key = key_ending_in(option);
      if (key.empty()) return false;
      found = NamedElsewhere{{key + "=" + (value.empty() ? "true" : value)}, "", false};
    }
    out_.names.push_back(option);
    for (const std::string& one : found->gives) take(option, one);
    if (found->refused)
      out_.notes.push_back(option + " has no equivalent: " + found->note);
    else if (!found->note.empty())
      out_.notes.push_back(option + ": " + found->note);
    return true;
  }
  TranslatedLine finished() {
    combine();
    if (positionals_.empty()) positionals_.push_back(file_.empty() ? "CONFIG" : file_);
    std::string& line = out_.line;
    for (const std::string& word : positionals_) line += " " + shell_quoted(word);
    for (const std::string& word : kept_) line += " " + shell_quoted(word);
    for (const auto& [key, value] : set_)
      line += (sweeps() ? " " : " --set ") + shell_quoted(key + "=" + value);
    for (const auto& [option, value] : options_) add_option(option, value);
    return std::move(out_);
  }

 private:
  bool sweeps() const { return command_.get_name() == "sweep"; }

  void take(const std::string& option, const std::string& one) {
    const size_t eq = one.find('=');
    const std::string left = one.substr(0, eq), right = eq == std::string::npos ? "" : one.substr(eq + 1);
    if (left == "@file")
      file_ = right;
    else if (left[0] == '@' && !number_above_zero(right))
      out_.notes.push_back(option + " is no number above 0");
    else if (left[0] == '@')
      quantities_[left.substr(1)] = right;
    else if (left[0] == '-')
      options_.emplace_back(left, right);
    else
      set(left, right);
    if (left == "--ranks") quantities_["ranks"] = right;
  }
  void set(const std::string& key, const std::string& value) {
    given_[key] = value;
    std::erase_if(set_, [&](const auto& one) { return one.first == key; });
    set_.emplace_back(key, value);
  }

  // Batches of a rank, accumulation, devices and nodes become ranks and batches of all ranks.
  void combine() {
    const auto quantity = [&](const std::string& name) {
      const auto it = quantities_.find(name);
      return it == quantities_.end() ? int64_t{1} : std::strtoll(it->second.c_str(), nullptr, 10);
    };
    const auto axis = [&](const std::string& name) {
      const auto it = given_.find("layout." + name);
      return it == given_.end() ? int64_t{1} : std::max(1LL, std::strtoll(it->second.c_str(), nullptr, 10));
    };
    int64_t ranks = quantity("ranks");
    if (quantities_.contains("devices") || quantities_.contains("nodes")) {
      ranks = quantity("devices") * quantity("nodes");
      if (quantities_.contains("nodes") && !quantities_.contains("devices"))
        out_.notes.emplace_back("--ranks is the number of nodes times GPUs of a node; one is taken");
      options_.emplace_back("--ranks", std::to_string(ranks));
    }
    const int64_t others = axis("tp") * axis("cp") * axis("pp");
    const int64_t dp = given_.contains("layout.dp") ? axis("dp") : std::max<int64_t>(1, ranks / others);
    const int64_t accumulate = quantity("accumulate");
    if (quantities_.contains("rank_batch") && !given_.contains("train.global_batch")) {
      set("train.global_batch", std::to_string(quantity("rank_batch") * accumulate * dp));
      if (dp * accumulate > 1)
        out_.notes.push_back("train.global_batch is " + std::to_string(quantity("rank_batch")) +
                             " samples of a rank x " + std::to_string(dp) + " data-parallel ranks" +
                             (accumulate > 1 ? " x " + std::to_string(accumulate) + " accumulated" : ""));
      if (accumulate > 1 && !given_.contains("policy.micro_batch"))
        set("policy.micro_batch", std::to_string(quantity("rank_batch")));
      return;
    }
    if (!quantities_.contains("accumulate")) return;
    const auto batch = given_.find("train.global_batch");
    if (batch == given_.end())
      out_.notes.push_back("policy.micro_batch is train.global_batch / layout.dp / " +
                           std::to_string(accumulate));
    else
      set("policy.micro_batch", std::to_string(std::max<int64_t>(
                                    1, std::strtoll(batch->second.c_str(), nullptr, 10) / dp / accumulate)));
  }

  void add_option(const std::string& option, const std::string& value) {
    std::string& line = out_.line;
    if (option == "--ranks" && sweeps())
      line += " gpus=" + value;
    else if (command_.get_option_no_throw(option))
      line += " " + option + (value.empty() ? "" : " " + shell_quoted(value));
    else if (option == "--ranks" && command_.get_option_no_throw("--gpus"))
      line += " --gpus " + value;
    else
      out_.notes.push_back(option + (value.empty() ? "" : " " + value) + " is an option of isobar train");
  }

  std::string name_;
  const CLI::App& command_;
  TranslatedLine out_;
  std::vector<std::string> positionals_, kept_;
  std::string file_;
  std::map<std::string, std::string> given_, quantities_;
  std::vector<std::pair<std::string, std::string>> set_, options_;
};

// True if the next word is the value of this option of other software.
bool takes(const std::string& option, const std::string& next) {
  if (next.starts_with("--")) return false;
  if (!flag_elsewhere(option)) return true;
  const std::optional<NamedElsewhere> meant = named_elsewhere(option, next);
  return meant && !meant->refused;
}

}  // namespace

std::optional<TranslatedLine> translated(const std::string& name, const CLI::App& command,
                                         const std::vector<std::string>& words) {
  Translator line(name, command);
  if (!line.takes_keys()) return std::nullopt;
  bool any = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const size_t eq = word.find('=');
    if (const CLI::Option* own = line.own(word)) {
      line.keep(word);
      if (eq == std::string::npos && own->get_items_expected_max() > 0 && i + 1 < words.size())
        line.keep(words[++i]);
    } else if (!word.starts_with("-")) {
      line.positional(word);
    } else {
      const bool next = eq == std::string::npos && i + 1 < words.size() && takes(word, words[i + 1]);
      const std::string value = eq != std::string::npos ? word.substr(eq + 1) : next ? words[++i] : "";
      if (!line.translate(word.substr(0, eq), value)) return std::nullopt;
      any = true;
    }
  }
  if (!any) return std::nullopt;
  return line.finished();
}

}  // namespace isobar::cli
