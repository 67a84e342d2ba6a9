#include "model/base/spec/spec.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/base/error.h"
#include "model/base/names/did_you_mean.h"
#include "model/base/names/hugging_face_config.h"
#include "model/base/names/other_names.h"
#include "model/base/spec/spec_rows.h"
#include "model/base/spec/traced_net.h"
#include "model/base/text/joined.h"
#include "model/base/text/json.h"
#include "model/base/text/yaml.h"

namespace isobar {
namespace {

std::pair<std::string, std::string> split(const std::string& key) {
  const size_t dot = key.find('.');
  return {key.substr(0, dot), key.substr(dot + 1)};
}

// Known keys by section, for a run with this kind of net, net.kind included.
std::map<std::string, std::vector<std::string>> keys_of(const std::string& kind) {
  std::map<std::string, std::vector<std::string>> known;
  RunSpec none;
  none.net.set_kind(kind);
  known["net"].push_back("kind");
  for (const KeyRow& row : key_rows(none)) known[split(row.key).first].push_back(split(row.key).second);
  return known;
}

bool has(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::string kind_in(const nlohmann::json& j, const std::string& file) {
  if (!j.contains("net") || !j["net"].is_object() || !j["net"].contains("kind")) return VitSpec::kKind;
  const auto& kind = j["net"]["kind"];
  const std::vector<std::string> kinds = NetSpec::kinds();
  if (kind.is_string() && has(kinds, kind.get<std::string>())) return kind;
  throw ConfigError(file, "net.kind", "is " + json_text(kind) + ", which is unknown",
                    "use one of " + joined(kinds));
}

}  // namespace

std::vector<std::string> net_kinds_with(const std::string& key) {
  const auto [section, name] = split(key);
  std::vector<std::string> out;
  for (const std::string& kind : NetSpec::kinds())
    if (has(keys_of(kind)[section], name)) out.push_back(kind);
  return out;
}

namespace {

// Expands "x0..x783" into names with consecutive numbers; all other names stay unchanged.
std::vector<std::string> with_ranges(const std::vector<std::string>& names) {
  constexpr int64_t kMostNames = 1 << 17;
  // Digits at the name's end, nine at most
  const auto digits_of = [](const std::string& name) {
    const size_t other = name.find_last_not_of("0123456789");
    return name.substr(std::max(other + 1, name.size() - std::min<size_t>(name.size(), 9)));
  };
  std::vector<std::string> out;
  for (const std::string& name : names) {
    const size_t dots = name.find("..");
    const std::string from = name.substr(0, dots),
                      to = dots == std::string::npos ? "" : name.substr(dots + 2);
    const std::string first = digits_of(from), last = digits_of(to);
    const std::string stem = from.substr(0, from.size() - first.size());
    const bool named = !first.empty() && !last.empty() && stem == to.substr(0, to.size() - last.size());
    if (!named || std::stoll(first) > std::stoll(last) ||
        std::stoll(last) - std::stoll(first) >= kMostNames) {
      out.push_back(name);
      continue;
    }
    for (int64_t i = std::stoll(first); i <= std::stoll(last); ++i) {
      std::string number = std::to_string(i);  // x000..x783 are of one width
      if (number.size() < first.size()) number.insert(0, first.size() - number.size(), '0');
      out.push_back(stem + number);
    }
  }
  return out;
}

std::string text_of(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "None" : json_text(value);
}

// The first key of other software in it, "" where there is none
std::string mend_of_others(const std::string& key, const nlohmann::json& value, bool assignment) {
  if (!value.is_object()) return mend_of_other_name(key, text_of(value), assignment);
  for (const auto& [name, inner] : value.items())
    if (const std::string mend = mend_of_others(name, inner, assignment); !mend.empty())
      return name + ": " + mend;
  return "";
}

// True for a section of ours by its keys, whose name is near, and for a key of ours without its section.
bool mistyped(const std::string& section, const nlohmann::json& body,
              const std::map<std::string, std::vector<std::string>>& known) {
  if (!body.is_object())
    return std::any_of(known.begin(), known.end(), [&](const auto& one) { return has(one.second, section); });
  for (const auto& [name, keys] : known)
    if (!did_you_mean(section, {name}, "").empty())
      for (const auto& item : body.items())
        if (has(keys, item.key())) return true;
  return false;
}

void refuse_unknown_keys(const nlohmann::json& j, const std::string& kind, const std::string& file) {
  auto known = keys_of(kind);
  const std::string list_keys = "`isobar config show FILE` lists all keys";
  std::vector<std::string> sections, keys;
  for (const auto& [section, names] : known) {
    sections.push_back(section);
    for (const std::string& name : names) keys.push_back(section + "." + name);
  }
  for (const auto& [section, body] : j.items()) {
    if (!known.contains(section)) {
      const std::string others =
          mistyped(section, body, known) ? "" : mend_of_others(section, body, file == "--set");
      if (!others.empty())
        throw ConfigError(file, key_named(section),
                          body.is_object() ? "is not a known section" : "is a key of other software", others);
      const std::string one = body.is_object() && body.size() == 1 ? section + "." + body.begin().key() : "";
      std::vector<std::string> allowed = one.empty() ? sections : keys;
      if (!body.is_object()) allowed.insert(allowed.end(), keys.begin(), keys.end());
      const std::string word = one.empty() ? section : one;
      throw ConfigError(file, key_named(word), one.empty() ? "is not a known section" : "is not a known key",
                        did_you_mean(word, allowed, did_you_mean(section, sections, list_keys)));
    }
    if (!body.is_object())
      throw ConfigError(file, key_named(section), "must hold keys of its own",
                        "indent them below `" + section + ":`");
    for (const auto& item : body.items()) {
      const auto& names = known[section];
      if (has(names, item.key())) continue;
      const std::vector<std::string> others = net_kinds_with(section + "." + item.key());
      if (others.empty()) {
        const std::string word = section + "." + item.key();
        const std::string other = mend_of_others(item.key(), item.value(), file == "--set");
        if (!other.empty()) throw ConfigError(file, word, "is a key of other software", other);
        std::vector<std::string> of_all_kinds;
        for (const std::string& one : NetSpec::kinds())
          for (const auto& [its_section, its_names] : keys_of(one))
            for (const std::string& name : its_names) of_all_kinds.push_back(its_section + "." + name);
        const std::string elsewhere = did_you_mean(word, of_all_kinds, list_keys);
        throw ConfigError(file, word, "is not a known key",
                          did_you_mean(word, keys, did_you_mean(item.key(), keys, elsewhere)));
      }
      throw ConfigError(file, section + "." + item.key(),
                        "is a key of net.kind " + joined(others, " and ") + ", and net.kind is " + kind,
                        section != "net" && has(known["net"], item.key())
                            ? "this net has net." + item.key() + ": set that"
                            : "remove it, or set net.kind");
    }
  }
}

}  // namespace

RunSpec run_spec_from_json(const nlohmann::json& j, const std::string& file) {
  if (!j.is_object()) throw ConfigError(file, "line 1", "does not hold a map of keys", "start with `net:`");
  const std::string kind = kind_in(j, file);
  refuse_unknown_keys(j, kind, file);
  RunSpec s;
  s.file = file;
  s.net.set_kind(kind);
  for (const KeyRow& row : key_rows(s)) row.read(j, file);
  if (!s.run.command.empty() && !j.contains("net")) s.run.by_settings = true;
  for (auto* names : {&s.data.inputs, &s.data.targets}) *names = with_ranges(*names);
  return s;
}

namespace {

// Blocks of a list of depths, with the merges or splits between its resolutions; nullopt: no such list
std::optional<int64_t> blocks_of(const nlohmann::json& depths) {
  if (!depths.is_array()) return std::nullopt;
  int64_t n = static_cast<int64_t>(depths.size()) - 1;
  for (const nlohmann::json& depth : depths) {
    if (!depth.is_number_integer() || depth < 0 || depth > 1'000'000) return std::nullopt;
    n += depth.get<int64_t>();
  }
  return n;
}

// Until layout.stages, net.placement: halves gave an aurora's ends two of four stages, and balanced none.
void replace_placement(nlohmann::json& j) {
  nlohmann::json& net = j["net"];
  const auto placement = net.find("placement");
  if (placement == net.end()) return;
  const auto layout = j.find("layout");
  if (*placement == "halves" && layout != j.end() && layout->is_object()) {
    const auto down = blocks_of(net.value("encoder_depths", nlohmann::json())),
               up = blocks_of(net.value("decoder_depths", nlohmann::json()));
    const nlohmann::json pp = layout->value("pp", nlohmann::json(1)),
                         vpp = layout->value("vpp", nlohmann::json(1));
    const bool four = (pp == 4 && vpp == 1) || (pp == 2 && vpp == 2);
    if (down && up && four) (*layout)["stages"] = {0, *down, *up, 0};
  }
  net.erase(placement);
}

}  // namespace

RunSpec run_spec_from_record(nlohmann::json j, const std::string& file) {
  if (j.is_object() && j.contains("net") && j["net"].is_object()) {
    replace_placement(j);
    const std::vector<std::string> own = keys_of(kind_in(j, file))["net"];
    nlohmann::json& net = j["net"];
    for (auto item = net.begin(); item != net.end();)
      item = has(own, item.key()) || net_kinds_with("net." + item.key()).empty() ? std::next(item)
                                                                                 : net.erase(item);
  }
  return run_spec_from_json(j, file);
}

bool NetSpec::set_kind(const std::string& kind) {
  const auto take = [&]<class... T>(const std::variant<T...>*) {
    return ((kind == T::kKind ? (of_ = T{}, true) : false) || ...);
  };
  return take(static_cast<const Kinds*>(nullptr));
}

std::vector<std::string> NetSpec::kinds() {
  const auto list = []<class... T>(const std::variant<T...>*) {
    return std::vector<std::string>{T::kKind...};
  };
  return list(static_cast<const Kinds*>(nullptr));
}

const Images* NetSpec::images() const {
  return visit([](const auto& n) -> const Images* {
    if constexpr (std::is_base_of_v<Images, std::decay_t<decltype(n)>>)
      return &n;
    else
      return nullptr;
  });
}

const WordsSpec* NetSpec::words() const {
  return visit([](const auto& n) -> const WordsSpec* {
    if constexpr (std::is_base_of_v<WordsSpec, std::decay_t<decltype(n)>>)
      return &n;
    else
      return nullptr;
  });
}

namespace {

// The steps of an override would be ignored where the file counts epochs.
void refuse_two_lengths(const nlohmann::json& j, const std::vector<std::string>& overrides) {
  const auto given = [&](const std::string& key) {
    return std::any_of(overrides.begin(), overrides.end(),
                       [&](const std::string& one) { return one.starts_with(key + "="); });
  };
  if (!given("train.steps")) return;
  const nlohmann::json train = j.value("train", nlohmann::json::object());
  const nlohmann::json epochs =
      train.is_object() ? train.value("epochs", nlohmann::json(0)) : nlohmann::json(0);
  if (epochs.is_number_integer() && epochs > 0)
    throw ConfigError("--set", "train.steps",
                      "is given, and train.epochs: " + epochs.dump() + " says how many",
                      given("train.epochs") ? "keep one of the two" : "add --set train.epochs=0");
}

}  // namespace

ValidSpec load_run_spec(const std::string& path, const std::vector<std::string>& overrides) {
  nlohmann::json j = is_traced_net(path)
                         ? nlohmann::json{{"net", {{"kind", TracedSpec::kKind}, {"file", path}}}}
                         : load_yaml(path);
  if (is_hugging_face_config(j)) j = run_of_config(j, path);
  for (const std::string& assignment : overrides) {
    apply_override(j, assignment);
    nlohmann::json alone;
    apply_override(alone, assignment);
    refuse_unknown_keys(alone, kind_in(j, path), "--set");
  }
  refuse_two_lengths(j, overrides);
  return run_spec_from_json(j, path);
}

nlohmann::json to_json(const RunSpec& spec) {
  nlohmann::json j = nlohmann::json::object();
  RunSpec copy = spec;
  j["net"]["kind"] = spec.net.kind();
  for (const KeyRow& row : key_rows(copy)) row.write(j);
  return j;
}

}  // namespace isobar
