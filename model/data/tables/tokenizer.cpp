#include "model/data/tables/tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <queue>
#include <stdexcept>
#include <tuple>

#include "model/base/error.h"
#include "model/base/text/json.h"

namespace isobar::data {
namespace {

using nlohmann::json;

constexpr size_t kMostKnown = 1 << 20;  // words
constexpr size_t kLongestKnown = 64;    // bytes of one

// GPT-2's words, which a byte-level step may ask for
constexpr const char* kWordsOfGpt2 =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string utf8(uint32_t c) {
  if (c < 0x80) return {static_cast<char>(c)};
  return {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 0x3f))};
}

// Byte-level vocabularies write each byte as a letter: printable ones of Latin-1 as themselves, others from
// 256 on.
const std::unordered_map<std::string, char>& bytes_of_letters() {
  static const auto map = [] {
    std::unordered_map<std::string, char> out;
    uint32_t others = 256;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      out[utf8(printable ? b : others++)] = static_cast<char>(b);
    }
    return out;
  }();
  return map;
}

// Nothing for a token that is not written so
std::optional<std::string> bytes_of(const std::string& token) {
  std::string out;
  for (size_t i = 0; i < token.size();) {
    const size_t n = static_cast<unsigned char>(token[i]) < 0x80 ? 1 : 2;
    const auto at = bytes_of_letters().find(token.substr(i, n));
    if (at == bytes_of_letters().end()) return std::nullopt;
    out += at->second;
    i += n;
  }
  return out;
}

bool absent(const json& j, const char* key) {
  return !j.contains(key) || j[key].is_null();
}

}  // namespace

// ---- byte pairs ----

/// Byte-pair encoding (Sennrich 2016) of bytes, as GPT-2's and Llama 3's: a word's tokens are merged two at a
/// time, the pair of the lowest rank first.
class Tokenizer::BytePairs {
 public:
  using Vocabulary = std::unordered_map<std::string, int32_t>;      // token by its bytes
  using Merges = std::vector<std::pair<std::string, std::string>>;  // by rank
  /// `whole`: a word that is a token is taken as it is. Throws std::invalid_argument for a merge of or to
  /// what is no token, and for a byte without a token.
  BytePairs(Vocabulary vocabulary, const Merges& merges, bool whole);
  /// Appends the tokens of a word.
  void encode(std::string_view word, std::vector<int32_t>& to) const;

 private:
  struct Merged {
    int32_t rank, token;
  };
  static uint64_t key(int32_t a, int32_t b) {
    return static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b);
  }
  void merge(std::vector<int32_t>& tokens) const;

  const Vocabulary vocabulary_;
  const bool whole_;
  int32_t of_byte_[256];
  std::unordered_map<uint64_t, Merged> merges_;  // by their two tokens
};

Tokenizer::BytePairs::BytePairs(Vocabulary vocabulary, const Merges& merges, bool whole)
    : vocabulary_(std::move(vocabulary)), whole_(whole) {
  const auto token = [&](const std::string& bytes) {
    const auto at = vocabulary_.find(bytes);
    if (at == vocabulary_.end()) throw std::invalid_argument("'" + bytes + "' is no token");
    return at->second;
  };
  for (int b = 0; b < 256; ++b) of_byte_[b] = token(std::string(1, static_cast<char>(b)));
  int32_t rank = 0;
  for (const auto& [a, b] : merges)
    merges_.try_emplace(key(token(a), token(b)), Merged{rank++, token(a + b)});
}

// Pairs wait by rank, then place; one whose tokens have changed since is passed over.
void Tokenizer::BytePairs::merge(std::vector<int32_t>& tokens) const {
  constexpr int32_t kGone = -1;
  using Pair = std::tuple<int32_t, int32_t, int32_t, int32_t>;  // rank, place, its tokens
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> waiting;
  const auto n = static_cast<int32_t>(tokens.size());
  std::vector<int32_t> before(tokens.size()), after(tokens.size());
  for (int32_t i = 0; i < n; ++i) before[i] = i - 1, after[i] = i + 1;
  const auto consider = [&](int32_t i) {
    if (i < 0 || after[i] >= n) return;
    const int32_t a = tokens[i], b = tokens[after[i]];
    if (const auto at = merges_.find(key(a, b)); at != merges_.end())
      waiting.emplace(at->second.rank, i, a, b);
  };
  for (int32_t i = 0; i + 1 < n; ++i) consider(i);
  while (!waiting.empty()) {
    const auto [rank, i, a, b] = waiting.top();
    waiting.pop();
    const int32_t next = after[i];
    if (tokens[i] != a || next >= n || tokens[next] != b) continue;
    tokens[i] = merges_.at(key(a, b)).token;
    tokens[next] = kGone;
    after[i] = after[next];
    if (after[i] < n) before[after[i]] = i;
    consider(before[i]);
    consider(i);
  }
  std::erase(tokens, kGone);
}

void Tokenizer::BytePairs::encode(std::string_view word, std::vector<int32_t>& to) const {
  if (whole_)
    if (const auto at = vocabulary_.find(std::string(word)); at != vocabulary_.end()) {
      to.push_back(at->second);
      return;
    }
  std::vector<int32_t> tokens;
  tokens.reserve(word.size());
  for (const char c : word) tokens.push_back(of_byte_[static_cast<unsigned char>(c)]);
  merge(tokens);
  to.insert(to.end(), tokens.begin(), tokens.end());
}

// ---- regular expressions ----

class Tokenizer::Splitter {
 public:
  /// Throws std::invalid_argument with what is wrong.
  explicit Splitter(const std::string& pattern) {
    int error = 0;
    PCRE2_SIZE at = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr));
    if (!code_) throw std::invalid_argument(text_of(error) + " at character " + std::to_string(at));
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without it matches are slower
    match_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  }
  /// f(part) for each match and for what is between. Returns an error, or 0.
  template <class F>
  int each(std::string_view text, const F& f) const {
    size_t begin = 0, from = 0;
    while (from < text.size()) {
      // The text is checked by the first match.
      const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                    from == 0 ? 0 : PCRE2_NO_UTF_CHECK, match_.get(), nullptr);
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) return found;
      const size_t *const ends = pcre2_get_ovector_pointer(match_.get()), first = ends[0], end = ends[1];
      if (end == first) {  // an empty match cuts nothing
        for (from = end + 1; from < text.size() && (text[from] & 0xc0) == 0x80;) ++from;
        continue;
      }
      if (first > begin) f(text.substr(begin, first - begin));
      f(text.substr(first, end - first));
      begin = from = end;
    }
    if (begin < text.size()) f(text.substr(begin));
    return 0;
  }
  static std::string text_of(int error) {
    PCRE2_UCHAR text[256];
    pcre2_get_error_message(error, text, sizeof text);
    return reinterpret_cast<const char*>(text);
  }

 private:
  struct Free {
    void operator()(pcre2_code* c) const { pcre2_code_free(c); }
    void operator()(pcre2_match_data* m) const { pcre2_match_data_free(m); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

// ---- tokenizer.json ----

Tokenizer::Tokenizer(std::string file) : file_(std::move(file)) {
  const json all = read_json(file_);
  if (!all.is_object() || absent(all, "model") || !all["model"].is_object())
    throw ConfigError(file_, "model", "is missing", "give a tokenizer.json as transformers writes it");
  if (!absent(all, "normalizer"))
    refuse("normalizer", "changes the text before it is cut, and this reads texts as they are");
  take_model(all["model"]);
  take_added(all);
  if (absent(all, "pre_tokenizer")) refuse("pre_tokenizer", "is missing, and bytes are what is encoded");
  take_splitters(all["pre_tokenizer"]);
}

Tokenizer::~Tokenizer() = default;

void Tokenizer::refuse(const std::string& key, const std::string& what) const {
  throw ConfigError(file_, key, what, "give a byte-level tokenizer, as GPT-2's or Llama 3's");
}

void Tokenizer::take_model(const json& model) {
  if (model.value("type", "BPE") != "BPE")
    refuse("model.type", "is " + json_text(model["type"]) + ", not BPE");
  for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"})
    if (!absent(model, key) && model[key] != "") refuse(std::string("model.") + key, "is set");
  if (model.value("byte_fallback", false)) refuse("model.byte_fallback", "is set");
  try {
    BytePairs::Vocabulary vocabulary;
    for (const auto& [text, id] : model.at("vocab").items()) {
      const auto token = id.get<int32_t>();
      if (token < 0 || token > 1 << 24) refuse("model.vocab", "has the token " + std::to_string(token));
      const std::optional<std::string> bytes = bytes_of(text);
      if (token >= words()) bytes_.resize(static_cast<size_t>(token) + 1);
      bytes_[static_cast<size_t>(token)] = bytes.value_or(text);
      if (bytes) vocabulary[*bytes] = token;
    }
    BytePairs::Merges merges;
    for (const json& pair : model.at("merges")) {
      const std::string text = pair.is_string() ? pair.get<std::string>() : "";
      const size_t space = text.find(' ');
      const std::string a = pair.is_string() ? text.substr(0, space) : pair.at(0).get<std::string>(),
                        b = pair.is_string() ? text.substr(space + 1) : pair.at(1).get<std::string>();
      merges.emplace_back(bytes_of(a).value_or(a), bytes_of(b).value_or(b));
    }
    pairs_ = std::make_unique<BytePairs>(std::move(vocabulary), merges, model.value("ignore_merges", false));
  } catch (const json::exception& e) {
    refuse("model", std::string("has no vocabulary and merges: ") + e.what());
  } catch (const std::invalid_argument& e) {
    refuse("model.vocab", std::string("lacks what is merged: ") + e.what());
  }
}

void Tokenizer::take_added(const json& tokenizer) {
  if (absent(tokenizer, "added_tokens")) return;
  for (const json& t : tokenizer["added_tokens"]) {
    if (!t.is_object() || !t.contains("content") || !t["content"].is_string() || !t.contains("id") ||
        !t["id"].is_number_integer() || t["id"] < 0 || t["id"] > 1 << 24 || t["content"] == "")
      refuse("added_tokens", "has one without text and number");
    const auto text = t["content"].get<std::string>();
    const auto id = t["id"].get<int32_t>();
    for (const char* key : {"lstrip", "rstrip", "single_word"})
      if (t.value(key, false)) refuse("added_tokens", "has '" + text + "' with " + key);
    added_[text] = id;
    begins_added_[static_cast<unsigned char>(text[0])] = true;
    if (id >= words()) bytes_.resize(static_cast<size_t>(id) + 1);
    bytes_[static_cast<size_t>(id)] = text;
  }
}

void Tokenizer::take_splitters(const json& step) {
  const std::string type = step.value("type", "");
  if (type != "Sequence") return take_splitter(step);
  for (const json& one : step.at("pretokenizers")) take_splitter(one);
}

void Tokenizer::take_splitter(const json& step) {
  const std::string type = step.value("type", "");
  std::string pattern;
  if (type == "ByteLevel") {
    if (step.value("add_prefix_space", true)) refuse("pre_tokenizer.add_prefix_space", "is set");
    if (!step.value("use_regex", true)) return;
    pattern = kWordsOfGpt2;
  } else if (type == "Split") {
    if (step.value("behavior", "") != "Isolated" || step.value("invert", false))
      refuse("pre_tokenizer.behavior", "is not that matches become words");
    if (absent(step, "pattern") || !step["pattern"].contains("Regex"))
      refuse("pre_tokenizer.pattern", "is no regular expression");
    pattern = step["pattern"]["Regex"].get<std::string>();
  } else {
    refuse("pre_tokenizer.type", "is '" + type + "', not ByteLevel or Split");
  }
  try {
    splitters_.emplace_back(pattern);
  } catch (const std::invalid_argument& e) {
    refuse("pre_tokenizer.pattern", std::string("is no regular expression: ") + e.what());
  }
}

// ---- text ----

std::vector<int32_t> Tokenizer::encode(std::string_view text, const std::string& named) {
  std::vector<int32_t> out;
  size_t begin = 0;
  const auto encode_to = [&](size_t end) {
    if (end > begin) encode_part(text.substr(begin, end - begin), 0, named, out);
  };
  for (size_t at = 0; at < text.size() && !added_.empty();) {
    const bool may = begins_added_[static_cast<unsigned char>(text[at])];
    const auto found = std::find_if(added_.begin(), added_.end(), [&](const auto& t) {
      return may && text.compare(at, t.first.size(), t.first) == 0;
    });
    if (found == added_.end()) {
      ++at;
      continue;
    }
    encode_to(at);
    out.push_back(found->second);
    begin = at += found->first.size();
  }
  encode_to(text.size());
  return out;
}

void Tokenizer::encode_part(std::string_view part, size_t step, const std::string& named,
                            std::vector<int32_t>& to) {
  if (step == splitters_.size()) return encode_word(part, to);
  const int error =
      splitters_[step].each(part, [&](std::string_view word) { encode_part(word, step + 1, named, to); });
  if (error != 0)
    throw ConfigError(named, "", "cannot be cut into words: " + Splitter::text_of(error),
                      "give text in UTF-8");
}

void Tokenizer::encode_word(std::string_view word, std::vector<int32_t>& to) {
  if (word.size() > kLongestKnown) return pairs_->encode(word, to);
  if (known_.size() > kMostKnown) known_.clear();
  const auto [at, fresh] = known_.try_emplace(std::string(word));
  if (fresh) pairs_->encode(word, at->second);
  to.insert(to.end(), at->second.begin(), at->second.end());
}

std::string Tokenizer::decode(std::span<const int32_t> tokens) const {
  std::string out;
  for (const int32_t t : tokens)
    if (t >= 0 && t < words()) out += bytes_[static_cast<size_t>(t)];
  return out;
}

int32_t Tokenizer::token(const std::string& text, const std::string& key) const {
  if (const auto at = added_.find(text); at != added_.end()) return at->second;
  throw ConfigError(key, "'" + showable(text) + "'", "is no special token of " + file_,
                    "give one of its added_tokens");
}

}  // namespace isobar::data
