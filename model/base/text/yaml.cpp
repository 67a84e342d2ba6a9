#include "model/base/text/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/base/error.h"
#include "model/base/system/files.h"

namespace isobar {
namespace {

/// By YAML 1.2's core rules.
nlohmann::json plain_scalar(const std::string& s) {
  if (s.empty() || s == "~" || s == "null" || s == "Null" || s == "NULL" || s == "None") return nullptr;
  if (s == "true" || s == "True" || s == "TRUE") return true;
  if (s == "false" || s == "False" || s == "FALSE") return false;
  const char* first = s.data() + (s[0] == '+' ? 1 : 0);
  const char* last = s.data() + s.size();
  int64_t i = 0;
  if (auto r = std::from_chars(first, last, i); r.ec == std::errc() && r.ptr == last) return i;
  double d = 0;
  if (auto r = std::from_chars(first, last, d); r.ec == std::errc() && r.ptr == last && std::isfinite(d))
    return d;
  return s;
}

nlohmann::json scalar(const YAML::Node& node) {
  const bool text = node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str";  // quoted, or !!str
  return text ? nlohmann::json(node.Scalar()) : plain_scalar(node.Scalar());
}

bool is_utf8(const std::string& s) {
  try {
    const std::string quoted = nlohmann::json(s).dump();  // throws for anything else
    return !quoted.empty();
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

// The place that an error names: the key, or the line where there is none, as at a file's top.
std::string place(const std::string& key, const YAML::Node& node) {
  if (!key.empty()) return key;
  const YAML::Mark mark = node.Mark();
  return "line " + std::to_string(mark.is_null() ? 1 : mark.line + 1);
}

void refuse_other_encodings(const std::string& s, const std::string& file, const std::string& key,
                            const char* mend = "save the file as UTF-8") {
  const bool plain = std::all_of(s.begin(), s.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
  if (s.find('\0') != std::string::npos)  // would cut the text short
    throw ConfigError(file, key, "holds a NUL character", "remove it");
  if (!plain && !is_utf8(s)) throw ConfigError(file, key, "holds bytes that are no UTF-8", mend);
}

// "!include other.yaml" would be taken for the text "other.yaml".
void refuse_unknown_tag(const YAML::Node& node, const std::string& file, const std::string& key) {
  const std::string& tag = node.Tag();
  if (tag.empty() || tag == "?" || tag == "!") return;
  for (const char* known : {"str", "int", "float", "bool", "null", "map", "seq"})
    if (tag == std::string("tag:yaml.org,2002:") + known) return;
  throw ConfigError(file, place(key, node), "has the tag " + tag + ", which has no meaning here",
                    "leave the tag out, or quote a text that begins with !");
}

// The parser passes over directives that it does not know, so a file of them would be an empty one.
void refuse_directives(const std::string& text, const std::string& file) {
  std::istringstream in(text);
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.starts_with("%YAML ") || line.starts_with("%TAG ") || line.starts_with("#") ||
        line.find_first_not_of(" \t\r") == std::string::npos)
      continue;
    if (!line.starts_with("%")) return;
    throw ConfigError(file, "line " + std::to_string(number), "begins with %, as no key or value does",
                      "remove it, or quote the text");
  }
}

struct Seen : YAML::EventHandler {  // whether a document holds something, and where
  bool anything = false;
  int line = 0;
  void see(const YAML::Mark& mark) {
    if (!anything) line = mark.line + 1;
    anything = true;
  }
  void OnDocumentStart(const YAML::Mark& mark) override { line = mark.line + 1; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { see(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t, const std::string&) override {
    see(mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    see(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    see(mark);
  }
  void OnMapEnd() override {}
};

// A second document would be ignored silently, so it is refused. On a syntax error the parser returns empty
// documents without end.
void require_one_document(const std::string& text, const std::string& file) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  Seen first;
  if (!parser.HandleNextDocument(first)) return;
  for (int more = 0;; ++more) {
    Seen next;
    if (!parser.HandleNextDocument(next)) return;
    if (next.anything || more == 2)
      throw ConfigError(file, "line " + std::to_string(next.line),
                        "is in another document, and a file's first is all that is read",
                        "keep one document (---), and quote a text that begins with , ] or }");
  }
}

constexpr int kDepth = 64;            // levels
constexpr int64_t kValues = 1 << 20;  // of a file, aliases expanded
constexpr int64_t kBytes = int64_t{64} << 20;
constexpr size_t kKeyBytes = 256;
constexpr size_t kFiles = 16;  // in a chain of inheritance

struct Room {  // the remaining budget of a file: a few aliases of aliases repeat one value a billion times
  int64_t values = kValues, bytes = kBytes;
  void take(const YAML::Node& node, const std::string& file, const std::string& key) {
    --values;
    if (node.IsScalar()) bytes -= static_cast<int64_t>(node.Scalar().size());
    if (values < 0 || bytes < 0)
      throw ConfigError(file, place(key, node),
                        "makes the file, with what its aliases (*name) repeat, longer than " +
                            std::to_string(kValues) + " values or " + std::to_string(kBytes >> 20) + " MiB",
                        "write less, or name fewer aliases of aliases");
  }
};

nlohmann::json convert(const YAML::Node& node, const std::string& file, const std::string& key, int depth,
                       Room& room);

// `<<: *defaults`, or a list of them with the first winning: adds keys that the map itself lacks (YAML's
// merge key, https://yaml.org/type/merge.html).
void merge_keys(nlohmann::json& out, const YAML::Node& from, const std::string& file, const std::string& key,
                int depth, Room& room) {
  if (from.IsSequence()) {
    for (const YAML::Node& one : from) {
      if (one.IsSequence())
        throw ConfigError(file, place(key, one), "merges (<<) a list of lists", "name maps");
      merge_keys(out, one, file, key, depth, room);
    }
    return;
  }
  if (!from.IsMap())
    throw ConfigError(file, place(key, from), "merges (<<) what is no map of keys",
                      "write <<: *name of a map");
  const nlohmann::json more = convert(from, file, key, depth + 1, room);
  for (const auto& [name, value] : more.items())
    if (!out.contains(name)) out[name] = value;
}

nlohmann::json convert(const YAML::Node& node, const std::string& file, const std::string& key, int depth,
                       Room& room) {
  if (depth > kDepth)
    throw ConfigError(file, place(key, node),
                      "is nested more than " + std::to_string(kDepth) + " levels deep", "flatten it");
  room.take(node, file, key);
  refuse_unknown_tag(node, file, key);
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      refuse_other_encodings(node.Scalar(), file, place(key, node));
      return scalar(node);
    case YAML::NodeType::Sequence: {
      nlohmann::json out = nlohmann::json::array();
      for (size_t i = 0; i < node.size(); ++i)
        out.push_back(convert(node[i], file, key + "[" + std::to_string(i) + "]", depth + 1, room));
      return out;
    }
    case YAML::NodeType::Map: {
      nlohmann::json out = nlohmann::json::object();
      std::vector<YAML::Node> merged;
      for (const auto& item : node) {
        if (!item.first.IsScalar())
          throw ConfigError(file, place(key, item.first), "has a key that is not a word", "use plain keys");
        const std::string name = item.first.Scalar();
        refuse_other_encodings(name, file, place(key, item.first));
        if (name.empty())
          throw ConfigError(file, place(key, item.first), "has a key without a name",
                            "write `key: value`, the key first");
        if (name.size() > kKeyBytes)
          throw ConfigError(file, place(key, item.first),
                            "has a key of more than " + std::to_string(kKeyBytes) + " bytes", "shorten it");
        if (name == "<<") {
          merged.push_back(item.second);
          continue;
        }
        if (out.contains(name)) throw ConfigError(file, name, "is given twice", "keep one of the two");
        out[name] = convert(item.second, file, std::string(key).append(key.empty() ? "" : ".").append(name),
                            depth + 1, room);
      }
      for (const YAML::Node& from : merged) merge_keys(out, from, file, key, depth, room);
      return out;
    }
    default:
      return nullptr;
  }
}

std::string in_order(const std::vector<std::string>& files, const std::string& last) {
  std::string out;
  for (const std::string& f : files) out += f + ", ";
  return out + last;
}

// `before`: the chain of files that led here, each of which inherits the next.
nlohmann::json load(const std::string& path, std::vector<std::string> before) {
  const auto same = [&](const std::string& other) {
    std::error_code unequal;
    return std::filesystem::equivalent(path, other, unequal) && !unequal;
  };
  if (std::any_of(before.begin(), before.end(), same))
    throw ConfigError(before.back(), "inherits",
                      "the files inherit each other in a circle: " + in_order(before, path),
                      "break the circle");
  if (before.size() == kFiles)
    throw ConfigError(
        before.back(), "inherits",
        "is the end of a chain of more than " + std::to_string(kFiles) + " files that inherit each other",
        "join some of them");
  nlohmann::json own = parse_yaml(read_file(path, most::yaml, before.empty() ? "" : "inherits"), path);
  if (own.is_null()) own = nlohmann::json::object();
  if (!own.is_object())
    throw ConfigError(path, "line 1", "does not hold a map of keys", "start with `net:` or `inherits:`");
  if (!own.contains("inherits")) return own;
  if (!own["inherits"].is_string())
    throw ConfigError(path, "inherits", "must be a file name", "e.g. vit.yaml");
  const std::filesystem::path parent =
      std::filesystem::path(path).parent_path() / own["inherits"].get<std::string>();
  std::error_code unknown;
  if (const auto about = std::filesystem::status(parent, unknown);
      about.type() == std::filesystem::file_type::not_found)
    throw ConfigError(path, "inherits", "there is no file " + parent.string(), "name a file beside this one");
  before.push_back(path);
  nlohmann::json base = load(parent.string(), std::move(before));
  own.erase("inherits");
  merge_into(base, own);
  return base;
}

}  // namespace

nlohmann::json parse_yaml(const std::string& text, const std::string& file) {
  refuse_directives(text, file);
  try {
    Room room;
    require_one_document(text, file);
    return convert(YAML::Load(text), file, "", 0, room);
  } catch (const YAML::Exception& e) {
    throw ConfigError(file, "line " + std::to_string(e.mark.line + 1), "is not valid YAML: " + e.msg,
                      "check indentation, colons and quotes there");
  }
}

nlohmann::json load_yaml(const std::string& path) {
  return load(path, {});
}

namespace {

void emit(YAML::Emitter& out, const nlohmann::json& j) {
  if (j.is_object()) {
    out << YAML::BeginMap;
    for (const auto& [key, value] : j.items()) {
      out << YAML::Key << key << YAML::Value;
      emit(out, value);
    }
    out << YAML::EndMap;
  } else if (j.is_array()) {
    const bool nested = std::any_of(j.begin(), j.end(), [](const auto& v) { return v.is_structured(); });
    out << (nested ? YAML::Block : YAML::Flow) << YAML::BeginSeq;
    for (const auto& value : j) emit(out, value);
    out << YAML::EndSeq;
  } else if (j.is_null()) {
    out << YAML::Null;
  } else if (!j.is_string()) {
    out << j.dump();
  } else if (const std::string s = j; scalar(YAML::Node(s)) == j) {
    out << s;  // quoted by yaml-cpp where needed
  } else {
    out << YAML::DoubleQuoted << s;  // "12", "true": words that would read as something else
  }
}

}  // namespace

std::string to_yaml(const nlohmann::json& j) {
  YAML::Emitter out;
  emit(out, j);
  return std::string(out.c_str()) + "\n";
}

void merge_into(nlohmann::json& base, const nlohmann::json& over) {
  if (!base.is_object() || !over.is_object()) {
    base = over;
    return;
  }
  for (const auto& [key, value] : over.items()) merge_into(base[key], value);
}

namespace {

// " #" outside of quotes: a file's comment, and part of what somebody typed.
bool holds_comment(const std::string& text) {
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == '\\' && quote == '"')
        ++i;
      else if (c == quote)
        quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#' && i > 0 && (text[i - 1] == ' ' || text[i - 1] == '\t')) {
      return true;
    }
  }
  return false;
}

// A list, a map or a quoted text is YAML. All else is what was typed: of "runs/run #2" or "a: b" YAML would
// make something else.
nlohmann::json value_of_option(const std::string& typed, const std::string& option) {
  const size_t begin = typed.find_first_not_of(" \t\n"), end = typed.find_last_not_of(" \t\n");
  const std::string text = begin == std::string::npos ? "" : typed.substr(begin, end - begin + 1);
  refuse_other_encodings(text, option, "", "name it in UTF-8");
  if (text.find_first_of("[{\"'") != 0) return plain_scalar(text);
  if (holds_comment(text))
    throw ConfigError(option, "", "holds ' #', which begins a comment", "put the text in quotes");
  return parse_yaml(text, option);
}

}  // namespace

void apply_override(nlohmann::json& j, const std::string& assignment) {
  const size_t eq = assignment.find('=');
  if (eq == std::string::npos || eq == 0)
    throw ConfigError("--set", assignment, "is not key=value", "write e.g. --set train.global_batch=8");
  const std::string key = assignment.substr(0, eq);
  nlohmann::json* at = &j;
  int depth = 0;
  for (size_t begin = 0;;) {
    const size_t dot = key.find('.', begin);
    const std::string part = key.substr(begin, dot == std::string::npos ? dot : dot - begin);
    if (part.empty()) throw ConfigError("--set", key, "has an empty part", "write e.g. net.embed_dim");
    if (++depth > kDepth) throw ConfigError("--set", key, "has too many parts", "write e.g. net.embed_dim");
    if (at->is_null()) *at = nlohmann::json::object();
    if (!at->is_object()) throw ConfigError("--set", key, "goes through a value", "name an existing section");
    at = &(*at)[part];
    if (dot == std::string::npos) break;
    begin = dot + 1;
  }
  *at = value_of_option(assignment.substr(eq + 1), "--set " + key);
}

}  // namespace isobar
