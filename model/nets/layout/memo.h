// Caches a pure function's results for the life of the program: plans of many ranks and layouts need the same
// graphs.
//
//   static Memo<Key, std::shared_ptr<const GlobeCut>> known;
//   return known(key, [&] { return make(n); });
//
//   const Lazy<EdgeSet> edges([=] { return local_edges(all, cut); });   // edges() makes it once
#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace isobar::nets {

template <class Key, class Value>
class Memo {
 public:
  template <class Make>
  Value operator()(const Key& key, const Make& make) {
    Entry* at = nullptr;
    {
      const std::lock_guard lock(mutex_);
      at = &values_[key];
    }
    const std::lock_guard lock(at->making);
    if (!at->value) at->value = make();
    return *at->value;
  }

 private:
  struct Entry {
    std::mutex making;  // others may make values of other keys meanwhile
    std::optional<Value> value;
  };
  std::mutex mutex_;
  std::map<Key, Entry> values_;
};

/// A value made on first access.
template <class Value>
class Lazy {
 public:
  explicit Lazy(std::function<Value()> make) : make_(std::move(make)) {}
  const Value& operator()() const {
    std::call_once(once_, [this] { value_ = make_(); });
    return value_;
  }

 private:
  const std::function<Value()> make_;
  mutable std::once_flag once_;
  mutable Value value_;
};

}  // namespace isobar::nets
