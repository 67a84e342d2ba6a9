// The pickle in PyTorch's checkpoints (protocols 2 to 5), read without executing it. It may name
// dictionaries, tensors and their storages; other names are refused before anything is constructed.
//
//   const TorchPickle p(bytes, file);            // ConfigError if not by torch.save
//   for (const auto& [key, value] : p.pairs(p.top())) …
//
// Values made of a pickle are bounded (kMostValues); references to them are numbers, so that a
// value which holds itself, or which is shared, is there once.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isobar::foreign {

struct PickledValue {
  enum class Kind : uint8_t { other, integer, text, sequence, dictionary, name, storage, tensor };
  Kind kind = Kind::other;
  int64_t integer = 0;
  std::string text;             // a name's "torch.FloatStorage"; a storage's key
  std::vector<uint32_t> items;  // dictionary: alternating keys and values; tensor: storage, offset, shape,
                                // strides; storage: name, count
};

class TorchPickle {
 public:
  static constexpr size_t kMostBytes = size_t{64} << 20;
  static constexpr size_t kMostValues = 2'000'000;

  TorchPickle(std::string_view bytes, const std::string& file);
  uint32_t top() const { return top_; }
  const PickledValue& at(uint32_t i) const { return values_[i]; }
  /// Keys and values of a dictionary, in its order; a key that came twice, twice.
  std::vector<std::pair<uint32_t, uint32_t>> pairs(uint32_t dictionary) const;

 private:
  friend class TorchUnpickler;
  std::vector<PickledValue> values_;
  uint32_t top_ = 0;
};

}  // namespace isobar::foreign
