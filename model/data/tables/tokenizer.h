// Tokenizers as Hugging Face's tokenizer.json describes them: byte-level byte-pair encoding, as of GPT-2,
// Llama 3 and DeepSeek.
//
//   Tokenizer t("tokenizer.json");
//   std::vector<int32_t> tokens = t.encode(text, "text.txt");   t.decode(tokens);
//
// A text is cut at its special tokens, then into words by regular expressions, and words are encoded one by
// one.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace isobar::data {

class Tokenizer {
 public:
  /// Throws ConfigError naming a key for a tokenizer of another kind, or with a step that is not here.
  explicit Tokenizer(std::string file);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  /// Without tokens that begin or end a text. Throws ConfigError, with `named` as the text's name, unless it
  /// is UTF-8.
  std::vector<int32_t> encode(std::string_view text, const std::string& named);
  /// The bytes of tokens; those that are none have none.
  std::string decode(std::span<const int32_t> tokens) const;
  /// Throws ConfigError naming the key of the option for what is no token.
  int32_t token(const std::string& text, const std::string& key) const;
  int64_t words() const { return static_cast<int64_t>(bytes_.size()); }

 private:
  class BytePairs;
  class Splitter;
  void take_added(const nlohmann::json& tokenizer);
  void take_model(const nlohmann::json& model);
  void take_splitters(const nlohmann::json& step);
  void take_splitter(const nlohmann::json& step);
  void encode_part(std::string_view part, size_t step, const std::string& named, std::vector<int32_t>& to);
  void encode_word(std::string_view word, std::vector<int32_t>& to);
  [[noreturn]] void refuse(const std::string& key, const std::string& what) const;

  const std::string file_;
  std::map<std::string, int32_t, std::greater<>> added_;  // longer ones before those that they begin with
  bool begins_added_[256] = {};                           // by the first byte of a text
  std::unique_ptr<BytePairs> pairs_;
  std::vector<Splitter> splitters_;
  std::vector<std::string> bytes_;                               // by token
  std::unordered_map<std::string, std::vector<int32_t>> known_;  // words that were encoded before
};

}  // namespace isobar::data
