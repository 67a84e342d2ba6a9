#include "bench/import/torch_pickle.h"

#include <unordered_map>

#include "model/base/error.h"
#include "model/base/text/printed.h"

namespace isobar::foreign {

using Kind = PickledValue::Kind;

// The pickle's virtual machine: a stack of values with marks, and a memo.
class TorchUnpickler {
 public:
  TorchUnpickler(std::string_view bytes, const std::string& file, TorchPickle& to)
      : bytes_(bytes), file_(file), to_(to) {}

  void operator()() {
    if (bytes_.size() > TorchPickle::kMostBytes)
      refuse("has a pickle of more than " + std::to_string(TorchPickle::kMostBytes >> 20) + " MiB");
    for (;;) {
      const auto op = static_cast<uint8_t>(take(1)[0]);
      if (op == '.') break;
      if (!frame(op) && !number(op) && !text(op) && !sequence(op) && !dictionary(op) && !stack(op) &&
          !memory(op) && !object(op)) {
        const std::string code = printed("0x%02x", op);
        refuse("has a pickle with the code " + code + ", which torch.save does not write");
      }
    }
    to_.top_ = pop();
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw ConfigError(file_, "", what, "give a file that torch.save wrote of a net's state_dict");
  }
  [[noreturn]] void damaged(const char* what) const {
    refuse(std::string("is damaged, or was not written by torch.save: ") + what);
  }

  std::string_view take(size_t n) {
    if (n > bytes_.size() - at_) damaged("its pickle is cut off");
    at_ += n;
    return bytes_.substr(at_ - n, n);
  }
  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) damaged("its pickle is cut off");
    const std::string_view text = take(end - at_);
    take(1);
    return text;
  }
  uint64_t unsigned_of(size_t bytes) {  // little endian
    uint64_t n = 0;
    const std::string_view text = take(bytes);
    for (size_t i = bytes; i-- > 0;) n = n << 8 | static_cast<uint8_t>(text[i]);
    return n;
  }
  int64_t signed_of(size_t bytes) {
    uint64_t n = unsigned_of(bytes);
    if (bytes > 0 && bytes < 8 && n >> (8 * bytes - 1)) n |= ~uint64_t{0} << (8 * bytes);
    return static_cast<int64_t>(n);
  }

  void charge(size_t values) {
    if ((made_ += values) > TorchPickle::kMostValues)
      refuse("has a pickle of more than " + std::to_string(TorchPickle::kMostValues) + " values");
  }
  uint32_t push(PickledValue v) {
    charge(1);
    to_.values_.push_back(std::move(v));
    const auto i = static_cast<uint32_t>(to_.values_.size() - 1);
    stack_.push_back(i);
    return i;
  }
  uint32_t pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) damaged("its pickle takes what is not there");
    const uint32_t i = stack_.back();
    stack_.pop_back();
    return i;
  }
  std::vector<uint32_t> pop_to_mark() {
    if (marks_.empty()) damaged("its pickle takes what is not there");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<uint32_t> out(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return out;
  }
  PickledValue& value(uint32_t i) { return to_.values_[i]; }
  /// The value, which must be of this kind.
  PickledValue& as(uint32_t i, Kind kind, const char* what) {
    if (value(i).kind != kind) damaged(what);
    return value(i);
  }
  PickledValue& top(Kind kind, const char* what) {
    const uint32_t i = pop();
    stack_.push_back(i);
    return as(i, kind, what);
  }
  void sequence_of(std::vector<uint32_t> items) { push({.kind = Kind::sequence, .items = std::move(items)}); }
  void sequence_of_last(size_t n) {
    std::vector<uint32_t> items(n);
    for (size_t i = n; i-- > 0;) items[i] = pop();
    sequence_of(std::move(items));
  }

  bool frame(uint8_t op) {
    if (op == 0x80 && unsigned_of(1) > 5) damaged("its pickle is of an unknown protocol");
    if (op == 0x95) take(8);
    return op == 0x80 || op == 0x95;
  }

  bool number(uint8_t op) {
    PickledValue v{.kind = Kind::integer};
    switch (op) {
      case 'J':
        v.integer = signed_of(4);
        break;
      case 'K':
        v.integer = signed_of_unsigned(1);
        break;
      case 'M':
        v.integer = signed_of_unsigned(2);
        break;
      case 0x8a:
      case 0x8b: {
        const size_t n = unsigned_of(op == 0x8a ? 1 : 4);
        if (n > 8)
          take(n), v.kind = Kind::other;  // larger than any valid size
        else
          v.integer = signed_of(n);
        break;
      }
      case 'G':
        take(8);
        v.kind = Kind::other;
        break;
      case 'N':
      case 0x88:
      case 0x89:
        v.kind = Kind::other;
        break;
      default:
        return false;
    }
    push(std::move(v));
    return true;
  }
  int64_t signed_of_unsigned(size_t bytes) { return static_cast<int64_t>(unsigned_of(bytes)); }

  bool text(uint8_t op) {
    size_t prefix = 0;
    switch (op) {
      case 0x8c:
      case 'U':
      case 'C':
        prefix = 1;
        break;
      case 'X':
      case 'T':
      case 'B':
        prefix = 4;
        break;
      case 0x8d:
      case 0x8e:
      case 0x96:
        prefix = 8;
        break;
      default:
        return false;
    }
    const uint64_t n = unsigned_of(prefix);
    const std::string_view bytes = take(n);
    const bool raw = op == 'C' || op == 'B' || op == 0x8e || op == 0x96;
    raw ? push({}) : push({.kind = Kind::text, .text = std::string(bytes)});
    return true;
  }

  bool sequence(uint8_t op) {
    switch (op) {
      case ')':
      case ']':
      case 0x8f:
        sequence_of({});
        return true;
      case 't':
      case 'l':
      case 0x91:
        sequence_of(pop_to_mark());
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        sequence_of_last(op - 0x84u);
        return true;
      case 'a': {
        const uint32_t item = pop();
        top(Kind::sequence, "its pickle appends to what is no list").items.push_back(item);
        return true;
      }
      case 'e':
      case 0x90: {
        const std::vector<uint32_t> more = pop_to_mark();
        auto& items = top(Kind::sequence, "its pickle appends to what is no list").items;
        items.insert(items.end(), more.begin(), more.end());
        return true;
      }
      default:
        return false;
    }
  }

  bool dictionary(uint8_t op) {
    const char* const odd = "its pickle has a key without a value";
    switch (op) {
      case '}':
        push({.kind = Kind::dictionary});
        return true;
      case 'd': {
        std::vector<uint32_t> items = pop_to_mark();
        if (items.size() % 2 != 0) damaged(odd);
        push({.kind = Kind::dictionary, .items = std::move(items)});
        return true;
      }
      case 's': {
        const uint32_t item = pop(), key = pop();
        auto& items = top(Kind::dictionary, "its pickle sets an item of what is no dictionary").items;
        items.insert(items.end(), {key, item});
        return true;
      }
      case 'u': {
        const std::vector<uint32_t> more = pop_to_mark();
        if (more.size() % 2 != 0) damaged(odd);
        auto& items = top(Kind::dictionary, "its pickle sets an item of what is no dictionary").items;
        items.insert(items.end(), more.begin(), more.end());
        return true;
      }
      default:
        return false;
    }
  }

  bool stack(uint8_t op) {
    switch (op) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '0':
        pop();
        return true;
      case '1':
        pop_to_mark();
        return true;
      case '2': {
        const uint32_t i = pop();
        stack_.insert(stack_.end(), {i, i});
        return true;
      }
      default:
        return false;
    }
  }

  bool memory(uint8_t op) {
    const auto keep = [&](uint64_t n) {
      const uint32_t i = pop();
      stack_.push_back(i);
      charge(1);
      memo_[n] = i;
    };
    const auto recall = [&](uint64_t n) {
      const auto known = memo_.find(n);
      if (known == memo_.end()) damaged("its pickle recalls what it has not kept");
      stack_.push_back(known->second);
    };
    switch (op) {
      case 'q':
        keep(unsigned_of(1));
        return true;
      case 'r':
        keep(unsigned_of(4));
        return true;
      case 0x94:
        keep(memo_.size());
        return true;
      case 'h':
        recall(unsigned_of(1));
        return true;
      case 'j':
        recall(unsigned_of(4));
        return true;
      default:
        return false;
    }
  }

  bool object(uint8_t op) {
    switch (op) {
      case 'c': {
        const std::string module(line()), name(line());
        named(module, name);
        return true;
      }
      case 0x93: {
        const uint32_t name = pop(), module = pop();
        const char* const what = "its pickle names something by no text";
        named(std::string(as(module, Kind::text, what).text), std::string(as(name, Kind::text, what).text));
        return true;
      }
      case 'Q':
        storage(pop());
        return true;
      case 'R': {
        const uint32_t arguments = pop(), what = pop();
        call(what, arguments);
        return true;
      }
      case 'b':  // a state_dict's _metadata
        pop();
        top(Kind::dictionary, "its pickle sets the state of what is no dictionary");
        return true;
      default:
        return false;
    }
  }

  void named(const std::string& module, const std::string& name) {
    const std::string full = module + "." + name;
    const bool known = full == kOrdered || full == kTensor || full == kParameter ||
                       (module == "torch" && name.ends_with("Storage"));
    if (!known)
      refuse("holds a " + full +
             ", which is neither a tensor nor a dictionary of them; save model.state_dict() alone");
    push({.kind = Kind::name, .text = full});
  }

  // ("storage", torch.FloatStorage, key, device, count)
  void storage(uint32_t of) {
    const char* const what = "it refers to something else than a storage";
    const std::vector<uint32_t> parts = as(of, Kind::sequence, what).items;
    if (parts.size() != 5 || as(parts[0], Kind::text, what).text != "storage") damaged(what);
    as(parts[1], Kind::name, what);
    as(parts[4], Kind::integer, what);
    const std::string key = as(parts[2], Kind::text, what).text;
    push({.kind = Kind::storage, .text = key, .items = {parts[1], parts[4]}});
  }

  void call(uint32_t callee, uint32_t arguments) {
    const std::string name = as(callee, Kind::name, "its pickle calls what is no name").text;
    const std::vector<uint32_t> given = as(arguments, Kind::sequence, "its pickle calls with no tuple").items;
    if (name == kOrdered) return ordered(given);
    const char* const what = "it has a tensor without storage, offset, shape and strides";
    if (name == kParameter && !given.empty()) {
      as(given[0], Kind::tensor, what);
      stack_.push_back(given[0]);
      return;
    }
    if (name != kTensor || given.size() < 4) damaged(what);
    as(given[0], Kind::storage, what), as(given[1], Kind::integer, what);
    for (const uint32_t list : {given[2], given[3]})
      for (const uint32_t n : as(list, Kind::sequence, what).items) as(n, Kind::integer, what);
    push({.kind = Kind::tensor, .items = {given[0], given[1], given[2], given[3]}});
  }

  void ordered(const std::vector<uint32_t>& given) {
    PickledValue d{.kind = Kind::dictionary};
    const char* const what = "it has a dictionary of something else than pairs";
    if (!given.empty()) {
      const std::vector<uint32_t>& pairs = as(given[0], Kind::sequence, what).items;
      charge(pairs.size());
      for (const uint32_t pair : pairs) {
        const std::vector<uint32_t>& two = as(pair, Kind::sequence, what).items;
        if (two.size() != 2) damaged(what);
        d.items.insert(d.items.end(), two.begin(), two.end());
      }
    }
    push(std::move(d));
  }

  static constexpr const char *kOrdered = "collections.OrderedDict",
                              *kTensor = "torch._utils._rebuild_tensor_v2",
                              *kParameter = "torch._utils._rebuild_parameter";
  std::string_view bytes_;
  const std::string& file_;
  TorchPickle& to_;
  size_t at_ = 0, made_ = 0;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, uint32_t> memo_;
};

TorchPickle::TorchPickle(std::string_view bytes, const std::string& file) {
  TorchUnpickler(bytes, file, *this)();
}

std::vector<std::pair<uint32_t, uint32_t>> TorchPickle::pairs(uint32_t dictionary) const {
  const std::vector<uint32_t>& items = values_[dictionary].items;
  std::vector<std::pair<uint32_t, uint32_t>> out;
  for (size_t i = 0; i + 1 < items.size(); i += 2) out.emplace_back(items[i], items[i + 1]);
  return out;
}

}  // namespace isobar::foreign
