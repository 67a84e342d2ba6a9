// Caches a pure function's results for the life of the program: plans of many ranks and layouts need the same
// graphs.
//
//   static Memo<Key, std::shared_ptr<const GlobeCut>> known;
//   return known(key, [&] { return make(n); });
#pragma once
#include <map>
#include <mutex>

namespace isobar {

template <class Key, class Value>
class Memo {
 public:
  template <class Make>
  Value operator()(const Key& key, const Make& make) {
    const std::lock_guard lock(mutex_);
    const auto at = values_.find(key);
    return at != values_.end() ? at->second : values_.emplace(key, make()).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<Key, Value> values_;
};

}  // namespace isobar
