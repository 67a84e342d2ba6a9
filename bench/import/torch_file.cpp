#include "bench/import/torch_file.h"

#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bench/import/torch_pickle.h"
#include "model/base/dtype.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/inference/weights/named_weights.h"

namespace isobar::foreign {
namespace {

using Kind = PickledValue::Kind;

using OpenMember = std::unique_ptr<zip_file_t, int (*)(zip_file_t*)>;

constexpr int64_t kMostElements = int64_t{1} << 48;

// The span of one tensor is bounded, in times of its own bytes: all between its numbers is read, too.
constexpr int64_t kMostSpread = 16, kFreeSpread = int64_t{1} << 18;

constexpr int64_t kMostMembers = 200'000;

constexpr size_t kPiece = size_t{1} << 20;

/// Bytes of an element; 0: not a type of weights.
int64_t width_of(const std::string& kind) {
  if (kind == "torch.DoubleStorage") return 8;
  if (kind == "torch.FloatStorage") return 4;
  if (kind == "torch.HalfStorage" || kind == "torch.BFloat16Storage") return 2;
  return 0;
}

template <class T>
float converted(const char* at) {
  T x;
  std::memcpy(&x, at, sizeof x);
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<float>(x);
  else
    return to_float(x);
}

using Convert = float (*)(const char*);

Convert converter(const std::string& kind) {
  if (kind == "torch.DoubleStorage") return converted<double>;
  if (kind == "torch.HalfStorage") return converted<f16>;
  if (kind == "torch.BFloat16Storage") return converted<bf16>;
  return converted<float>;
}

std::string said_of(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

bool product(int64_t& n, int64_t by) {
  if (by < 0 || (by > 0 && n > kMostElements / by)) return false;
  n *= by;
  return true;
}

/// The dictionary of weights within the saved object; `left_out`: its other keys.
uint32_t weights_in(const TorchPickle& p, std::vector<std::string>& left_out) {
  if (p.at(p.top()).kind != Kind::dictionary) return p.top();
  const auto pairs = p.pairs(p.top());
  for (const char* name : {"state_dict", "model_state_dict", "model", "module"})
    for (const auto& [key, value] : pairs) {
      if (p.at(key).kind != Kind::text || p.at(key).text != name || p.at(value).kind != Kind::dictionary)
        continue;
      for (const auto& [other, unused] : pairs)
        if (p.at(other).text != name)
          left_out.push_back(p.at(other).kind == Kind::text ? p.at(other).text : "something with no name");
      return value;
    }
  return p.top();
}

class TorchFile : public inference::NamedWeights {
 public:
  explicit TorchFile(const std::filesystem::path& path) : path_(path.string()) {
    const InputFile file(path);
    const int own = ::dup(file.fd());  // zip_fdopen takes ownership
    if (own < 0) refuse(std::string("cannot be opened: ") + std::strerror(errno));
    int code = 0;
    zip_ = zip_fdopen(own, ZIP_RDONLY, &code);
    if (!zip_) {
      ::close(own);
      refuse("is damaged, or was not written by torch.save: " + said_of(code));
    }
    try {
      list_members();
      if (!members_.contains("data.pkl"))
        refuse(
            "is a zip archive, but none that torch.save wrote: data.pkl is missing; logs and traces have to "
            "be "
            "unzipped");
      if (const auto order = members_.find("byteorder"); order != members_.end())
        if (text_of(order->second, 64).substr(0, 6) != "little")
          refuse("was written on a big-endian machine");
      take_tensors(text_of(members_.at("data.pkl"), static_cast<int64_t>(TorchPickle::kMostBytes)));
    } catch (...) {
      zip_discard(zip_);
      throw;
    }
  }
  ~TorchFile() override { zip_discard(zip_); }
  TorchFile(const TorchFile&) = delete;
  TorchFile& operator=(const TorchFile&) = delete;
  const std::map<std::string, std::vector<int64_t>>& shapes() const override { return shapes_; }
  bool floating(const std::string& name) const override { return width_of(views_.at(name).kind) > 0; }
  void read(const std::string& name, float* values) const override {
    const View& v = views_.at(name);
    if (!floating(name))
      refuse("has " + name + " as " + v.kind.substr(v.kind.find('.') + 1) + ", which is no type of weights");
    const std::vector<int64_t>& shape = shapes_.at(name);
    if (v.count == 0) return;
    const int64_t width = width_of(v.kind);
    const Member& m = member("data/" + v.key, name);
    if (v.offset + v.span > m.bytes / width)
      refuse("has a tensor, " + name + ", that goes beyond its storage");
    if (v.span > kFreeSpread && v.span / kMostSpread > v.count)
      refuse("has " + name + " spread over " + std::to_string(v.span / v.count) +
             " times its size; save a contiguous copy of it");
    check_bytes(m, "data/" + v.key);
    const std::string bytes = part_of(m, "data/" + v.key, v.offset * width, v.span * width);
    const Convert number = converter(v.kind);
    std::vector<int64_t> at(shape.size(), 0);
    int64_t from = 0;
    for (int64_t i = 0; i < v.count; ++i) {
      values[i] = number(bytes.data() + from * width);
      for (size_t axis = shape.size(); axis-- > 0;) {  // next index, last axis first
        from += v.strides[axis];
        if (++at[axis] < shape[axis]) break;
        from -= at[axis] * v.strides[axis];
        at[axis] = 0;
      }
    }
  }
  /// Names of all that a training keeps beside its weights
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  struct Member {
    uint64_t index = 0;
    int64_t bytes = 0;
  };
  struct View {  // part of a storage, in elements
    std::string kind, key;
    int64_t offset = 0, count = 1, span = 0;  // span: from the first element to the last
    std::vector<int64_t> strides;
  };
  [[noreturn]] void refuse(const std::string& what) const {
    throw ConfigError(path_, "", what, "give a file that torch.save wrote of a net's state_dict");
  }
  // Member names start with the archive's name and a slash.
  void list_members() {
    const zip_int64_t entries = zip_get_num_entries(zip_, 0);
    if (entries > kMostMembers) refuse("has more than " + std::to_string(kMostMembers) + " members");
    for (zip_int64_t i = 0; i < entries; ++i) {
      zip_stat_t s;
      if (zip_stat_index(zip_, static_cast<zip_uint64_t>(i), 0, &s) != 0 || !(s.valid & ZIP_STAT_NAME) ||
          !(s.valid & ZIP_STAT_SIZE))
        continue;
      const std::string name = s.name, own = name.substr(name.find('/') + 1);
      // torch.save does not compress, and compressed members could expand without bound.
      if ((s.valid & ZIP_STAT_COMP_METHOD) && s.comp_method != ZIP_CM_STORE)
        refuse("has a compressed member, " + name + ", which torch.save does not write: save it again");
      if (s.size > static_cast<zip_uint64_t>(INT64_MAX))
        refuse("is damaged: " + name + " is of an impossible size");
      if (!members_.try_emplace(own, Member{static_cast<uint64_t>(i), static_cast<int64_t>(s.size)}).second)
        refuse("is damaged: it has " + own + " twice");
    }
  }
  const Member& member(const std::string& name, const std::string& of) const {
    const auto at = members_.find(name);
    if (at == members_.end()) refuse("lacks " + name + ", the values of " + of);
    return at->second;
  }
  std::string text_of(const Member& m, int64_t most) const {
    if (m.bytes > most)
      refuse("has a member of more than " + std::to_string(most) + " bytes where less is enough");
    check_bytes(m, "data.pkl");
    return part_of(m, "data.pkl", 0, m.bytes);
  }
  void take_tensors(const std::string& pickle) {
    const TorchPickle p(pickle, path_);
    const uint32_t top = weights_in(p, left_out_);
    if (p.at(top).kind != Kind::dictionary || p.at(top).items.empty())
      refuse("holds no dictionary of tensors; save model.state_dict()");
    for (const auto& [key, value] : p.pairs(top)) {
      const std::string name = p.at(key).kind == Kind::text ? p.at(key).text : "a key that is no text";
      const PickledValue& t = p.at(value);
      if (t.kind != Kind::tensor || p.at(key).kind != Kind::text)
        refuse("has something under '" + name + "' that is no tensor; save model.state_dict() alone");
      const PickledValue& storage = p.at(t.items[0]);
      View view{.kind = p.at(storage.items[0]).text, .key = storage.text, .offset = p.at(t.items[1]).integer};
      std::vector<int64_t> shape;
      for (const uint32_t n : p.at(t.items[2]).items) shape.push_back(p.at(n).integer);
      for (const uint32_t n : p.at(t.items[3]).items) view.strides.push_back(p.at(n).integer);
      bool fits = shape.size() == view.strides.size() && view.offset >= 0 && view.offset <= kMostElements;
      for (const int64_t n : shape) fits = fits && product(view.count, n);
      for (size_t i = 0; fits && view.count > 0 && i < shape.size(); ++i) {
        int64_t reach = shape[i] - 1;
        fits = product(reach, view.strides[i]) && (view.span += reach) <= kMostElements;
      }
      if (!fits) refuse("has " + name + " with a shape that no storage can hold");
      if (view.count > 0) ++view.span;
      shapes_[name] = std::move(shape);
      views_[name] = std::move(view);
    }
  }
  /// Reads a member to its end, where libzip verifies the checksum.
  void check_bytes(const Member& m, const std::string& name) const {
    if (checked_.contains(m.index)) return;
    const OpenMember file(zip_fopen_index(zip_, m.index, 0), zip_fclose);
    if (!file) refuse("is damaged: " + name + " cannot be read: " + zip_strerror(zip_));
    std::string piece(std::min(kPiece, static_cast<size_t>(std::max<int64_t>(m.bytes, 1))), '\0');
    int64_t done = 0;
    for (;;) {
      const zip_int64_t got = zip_fread(file.get(), piece.data(), piece.size());
      if (got < 0) refuse("is damaged: " + name + " cannot be read: " + zip_file_strerror(file.get()));
      if (got == 0) break;
      done += got;
    }
    if (done != m.bytes) refuse("is damaged: " + name + " is cut off");
    checked_.insert(m.index);
  }
  std::string part_of(const Member& m, const std::string& name, int64_t first, int64_t bytes) const {
    const OpenMember file(zip_fopen_index(zip_, m.index, 0), zip_fclose);
    std::string out(static_cast<size_t>(bytes), '\0');
    bool good = file && (first == 0 || zip_fseek(file.get(), first, SEEK_SET) == 0);
    for (int64_t done = 0; good && done < bytes;) {
      const zip_int64_t got =
          zip_fread(file.get(), out.data() + done, static_cast<zip_uint64_t>(bytes - done));
      good = got > 0;
      done += std::max<zip_int64_t>(got, 0);
    }
    if (!good) refuse("is damaged: " + name + " cannot be read");
    return out;
  }

  std::string path_;
  zip* zip_ = nullptr;
  std::map<std::string, Member> members_;
  std::map<std::string, std::vector<int64_t>> shapes_;
  std::map<std::string, View> views_;
  std::vector<std::string> left_out_;
  mutable std::set<uint64_t> checked_;  // members with verified checksums
};

}  // namespace

std::unique_ptr<inference::NamedWeights> open_torch_file(const std::filesystem::path& file,
                                                         std::vector<std::string>* left_out) {
  auto weights = std::make_unique<TorchFile>(file);
  if (left_out) *left_out = weights->left_out();
  return weights;
}

}  // namespace isobar::foreign
