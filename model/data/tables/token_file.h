// Files of tokens, one after another:
//
//   .bin        whole numbers of 16 bits, as nanoGPT writes them, or of 32 bits for more than 65536 words; or
//               llm.c's, with a header of 256 integers (magic 20240520: 16 bits, 20240801: 32 bits)
//   .bin .idx   Megatron's: the index beside the .bin has the type and the number of tokens
//   .npy        one axis of whole numbers
//
//   TokenFile file("text.bin", "data.train", 50257);
//   file.read(first, count, tokens);      // thread-safe
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "model/base/system/files.h"
#include "model/data/files/element.h"

namespace isobar::data {

class TokenFile {
 public:
  /// `words`: of the vocabulary. Throws ConfigError(path, key, ...) for a file that is none of these, or is
  /// not as long as it says.
  TokenFile(const std::string& path, const std::string& key, int64_t words);
  int64_t size() const { return size_; }  // tokens
  const std::string& path() const { return path_; }
  /// Throws ConfigError where the file ends early or a token is not below `words`.
  void read(int64_t first, int64_t count, int32_t* tokens) const;

 private:
  struct Layout {
    int64_t begin = 0, tokens = -1;  // bytes before the first token; -1: all that follow
    Element element = Element::u16;
  };
  Layout layout_of() const;
  void refuse_wide_tokens(const std::string& begin) const;
  Layout numpy_layout() const;
  Layout index_layout(const std::string& index) const;

  std::string path_, key_;
  int64_t words_;
  InputFile file_;
  Layout layout_;
  int64_t size_ = 0;
};

/// Writes a .bin as nanoGPT does, atomically: 16 bits a token, or 32 if there are more than 65536 words.
void write_tokens(const std::string& path, std::span<const int32_t> tokens, int64_t words);

}  // namespace isobar::data
