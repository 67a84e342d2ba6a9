#include "model/base/names/other_names.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace isobar {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

bool holds(const std::string& words, const std::string& word) {
  const std::vector<std::string> all = words_of(words);
  return std::find(all.begin(), all.end(), word) != all.end();
}

// "--Micro-Batch-Size", "training.micro_batch_size": micro_batch_size
std::string plain(const std::string& name) {
  std::string out = name.substr(name.rfind('.') + 1);
  out.erase(0, out.find_first_not_of('-') == std::string::npos ? out.size() : out.find_first_not_of('-'));
  for (char& c : out) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool means(const OtherName& row, const std::string& value) {
  const std::string v = lower(value);
  for (const std::string& one : words_of(row.values)) {
    if (one == "(flag)" ? v.empty() || v == "true" || v == "1" : one == v) return true;
    if (one == "(off)" && (v == "false" || v == "none" || v == "null" || v == "0" || v == "no")) return true;
    if (one.starts_with("*.") && v.ends_with(one.substr(1))) return true;
  }
  return *row.values == '\0' && !value.empty();
}

// "[360, 720]": 360, 720
std::vector<std::string> elements(std::string value) {
  for (char& c : value)
    if (c == '[' || c == ']' || c == ',' || c == '(' || c == ')') c = ' ';
  return words_of(value);
}

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

std::string filled(std::string text, const std::string& value) {
  const std::vector<std::string> parts = elements(value);
  for (size_t i = 0; i < 2; ++i)
    replace_all(text, "*" + std::to_string(i + 1), i < parts.size() ? parts[i] : "?");
  char rest[32];
  std::snprintf(rest, sizeof rest, "%g", 1 - std::strtod(value.c_str(), nullptr));
  replace_all(text, "1-*", rest);
  replace_all(text, "*", value);
  return text;
}

// The keys that a quantity sets together with others, for an answer about it alone
std::string alone(const std::string& quantity, const std::string& value, const char* is) {
  if (quantity == "rank_batch")
    return "train.global_batch" + (is + value) + " on one rank, " + value + " x layout.dp on several";
  if (quantity == "accumulate") return "policy.micro_batch: train.global_batch / layout.dp / " + value;
  if (quantity == "devices") return "--ranks " + value + " (GPUs of a node x nodes)";
  if (quantity == "nodes") return "--ranks (" + value + " x GPUs of a node)";
  return "the configuration " + value;
}

}  // namespace

std::optional<NamedElsewhere> named_elsewhere(const std::string& name, const std::string& value) {
  const std::string own = plain(name);
  bool known = false;
  std::string values;
  for (const OtherName& row : other_names()) {
    if (!holds(row.names, own)) continue;
    known = true;
    for (const std::string& v : words_of(row.values)) values += (values.empty() ? "" : ", ") + v;
    if (!means(row, value)) continue;
    NamedElsewhere out{{}, row.note, false};
    out.refused = std::string(row.gives) == "-";
    if (!out.refused)
      for (const std::string& one : words_of(row.gives)) out.gives.push_back(filled(one, value));
    return out;
  }
  if (!known) return std::nullopt;
  return NamedElsewhere{{}, "'" + value + "' is none of its known values: " + values, true};
}

bool flag_elsewhere(const std::string& name) {
  for (const OtherName& row : other_names())
    if (holds(row.names, plain(name)) && holds(row.values, "(flag)")) return true;
  return false;
}

std::string mend_of_other_name(const std::string& name, const std::string& value, bool assignment) {
  const std::optional<NamedElsewhere> found = named_elsewhere(name, value);
  if (!found) return "";
  const char* is = assignment ? "=" : ": ";
  std::string out;
  for (const std::string& one : found->gives) {
    const size_t eq = one.find('=');
    const std::string left = one.substr(0, eq), right = eq == std::string::npos ? "" : one.substr(eq + 1);
    out += out.empty() ? "here it is " : ", ";
    if (left[0] == '@')
      out += alone(left.substr(1), right, is);
    else if (left[0] == '-')
      out += "the option " + left + (right.empty() ? "" : " " + right);
    else
      out += left + is + right;
  }
  if (found->note.empty()) return out;
  return out.empty() ? "leave it out: " + found->note : out + " (" + found->note + ")";
}

}  // namespace isobar
