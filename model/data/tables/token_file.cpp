#include "model/data/tables/token_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "model/base/error.h"
#include "model/data/files/npy.h"

namespace isobar::data {
namespace {

constexpr int64_t kWordsOf16Bits = 1 << 16;
constexpr const char* kMend =
    "give a .bin of tokens of 16 bits (nanoGPT, llm.c), Megatron's .bin with its .idx, or a .npy of whole "
    "numbers; isobar data tokens makes one from text";

// The bytes [at, at + count) of a file, fewer where it ends
std::string bytes_of(const InputFile& file, int64_t at, int64_t count) {
  std::string bytes(static_cast<size_t>(count), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = pread(file.fd(), bytes.data() + done, bytes.size() - done,
                            static_cast<off_t>(at) + static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

template <class T>
T number_at(const std::string& bytes, size_t at) {
  T x{};
  if (at + sizeof(T) <= bytes.size()) std::memcpy(&x, bytes.data() + at, sizeof(T));
  return x;
}

bool whole_numbers(Element e) {
  return e != Element::f16 && e != Element::f32 && e != Element::f64;
}

}  // namespace

TokenFile::TokenFile(const std::string& path, const std::string& key, int64_t words)
    : path_(path), key_(key), words_(words), file_(path, key), layout_(layout_of()) {
  const int64_t held = (file_.size() - layout_.begin) / size_of(layout_.element);
  size_ = layout_.tokens < 0 ? held : layout_.tokens;
  if (size_ > held)
    throw ConfigError(path_, key_,
                      "ends after " + std::to_string(held) + " of its " + std::to_string(size_) + " tokens",
                      "copy or make it again");
}

TokenFile::Layout TokenFile::layout_of() const {
  const std::filesystem::path path(path_);
  if (path.extension() == ".npy") return numpy_layout();
  if (path.extension() != ".bin") throw ConfigError(path_, key_, "is no file of tokens by its name", kMend);
  const std::string index = std::filesystem::path(path).replace_extension(".idx");
  std::error_code unknown;
  if (std::filesystem::exists(index, unknown)) return index_layout(index);
  constexpr int64_t kHeader = 256 * sizeof(int32_t);
  constexpr int32_t kMagic16 = 20240520, kMagic32 = 20240801;
  const std::string header = bytes_of(file_, 0, kHeader);
  const auto magic = number_at<int32_t>(header, 0), tokens = number_at<int32_t>(header, 8);
  if (static_cast<int64_t>(header.size()) == kHeader && (magic == kMagic16 || magic == kMagic32))
    return {.begin = kHeader, .tokens = tokens, .element = magic == kMagic16 ? Element::u16 : Element::u32};
  if (words_ > kWordsOf16Bits) return {.element = Element::u32};
  refuse_wide_tokens(header);
  return {.element = Element::u16};
}

// Read by halves, tokens of 32 or 64 bits would be every second one a word 0.
void TokenFile::refuse_wide_tokens(const std::string& begin) const {
  const size_t halves = begin.size() / 2;
  bool zeros = halves >= 16, others = false;
  for (size_t i = 0; i < halves; ++i) {
    const bool zero = number_at<uint16_t>(begin, 2 * i) == 0;
    i % 2 == 1 ? zeros = zeros&& zero : others = others || !zero;
  }
  if (zeros && others)
    throw ConfigError(path_, key_, "holds tokens of 32 bits or more by its begin: every second half is 0",
                      "write 16 bits (x.astype('uint16').tofile), or a .npy, which tells its type");
}

TokenFile::Layout TokenFile::numpy_layout() const {
  const NpyHeader h = parse_npy_header(bytes_of(file_, 0, kMostOfNpyHeader), path_, key_, kMend);
  if (!whole_numbers(h.element) || !h.datetime.empty() || h.big_endian || h.shape.size() != 1)
    throw ConfigError(path_, key_, "is no list of whole numbers in this machine's byte order", kMend);
  return {h.data_at, h.count, h.element};
}

// megatron/core/datasets/indexed_dataset.py: magic, version, type, sequences, documents, lengths of sequences
TokenFile::Layout TokenFile::index_layout(const std::string& index) const {
  constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
  const InputFile file(index, key_);
  const std::string header = bytes_of(file, 0, 34);
  const auto refuse = [&](const std::string& what) {
    throw ConfigError(index, key_, what, "make it again with Megatron's preprocess_data.py");
  };
  if (header.size() < 34 || !header.starts_with(kMagic) || number_at<uint64_t>(header, 9) != 1)
    refuse("is no index of Megatron's");
  constexpr std::pair<int, Element> kTypes[] = {{1, Element::u8},  {2, Element::i8},  {3, Element::i16},
                                                {4, Element::i32}, {5, Element::i64}, {8, Element::u16}};
  const auto* const type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& t) {
    return t.first == number_at<uint8_t>(header, 17);
  });
  if (type == std::end(kTypes)) refuse("has tokens of a type that are no whole numbers");
  const auto sequences = static_cast<int64_t>(number_at<uint64_t>(header, 18));
  if (sequences < 0 || sequences > (file.size() - 34) / 12) refuse("is truncated");
  int64_t tokens = 0;
  constexpr int64_t kBlock = 1 << 16;
  for (int64_t i = 0; i < sequences; i += kBlock) {
    const int64_t n = std::min(kBlock, sequences - i);
    const std::string lengths = bytes_of(file, 34 + 4 * i, 4 * n);
    for (int64_t k = 0; k < n; ++k) tokens += number_at<int32_t>(lengths, static_cast<size_t>(4 * k));
  }
  return {0, tokens, type->second};
}

void TokenFile::read(int64_t first, int64_t count, int32_t* tokens) const {
  const int64_t width = size_of(layout_.element);
  const std::string bytes = bytes_of(file_, layout_.begin + first * width, count * width);
  if (static_cast<int64_t>(bytes.size()) < count * width)
    throw ConfigError(path_, key_, "ends before token " + std::to_string(first + count),
                      "it was longer when it was opened: copy or make it again");
  for (int64_t i = 0; i < count; ++i) {
    const double word = as_double(bytes.data() + i * width, layout_.element);
    if (word < 0 || word >= static_cast<double>(words_))
      throw ConfigError(path_, key_,
                        "token " + std::to_string(first + i) + " is word " +
                            std::to_string(static_cast<int64_t>(word)) + ", and the net has " +
                            std::to_string(words_) + " words",
                        "set net.vocab_size to the tokenizer's number of words");
    tokens[i] = static_cast<int32_t>(word);
  }
}

void write_tokens(const std::string& path, std::span<const int32_t> tokens, int64_t words) {
  const size_t width = words > kWordsOf16Bits ? 4 : 2;
  std::string out(width * tokens.size(), '\0');
  for (size_t i = 0; i < tokens.size(); ++i) std::memcpy(out.data() + width * i, &tokens[i], width);
  write_atomically(path, out);
}

}  // namespace isobar::data
