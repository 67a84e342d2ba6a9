// Byte-pair encoding (Sennrich 2016) of bytes, as GPT-2's and Llama 3's: a word's tokens are merged two at a
// time, the pair of the lowest rank first.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace isobar::data {

class BytePairs {
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

}  // namespace isobar::data
