// Decoded chunks of files whose chunks span several time steps; without it each sample would decode whole
// chunks again. Evicts the least recently used beyond a budget of bytes; all files of a data set share one.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace isobar::data {

class ChunkCache {
 public:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;
  using Key = std::pair<const void*, int64_t>;  // array, linear chunk number

  explicit ChunkCache(int64_t budget_bytes) : budget_(budget_bytes) {}

  int64_t budget() const { return budget_; }
  /// The cached chunk, or the result of `decode`, whose exceptions pass through. When several threads need a
  /// chunk at once, one decodes and the others wait.
  Bytes find_or(const Key& key, const std::function<Bytes()>& decode);

 private:
  Bytes find(const Key& key);  // null when absent; both need the lock
  void insert(const Key& key, Bytes bytes);
  struct Entry {
    Key key;
    Bytes bytes;
  };
  int64_t budget_, used_ = 0;
  std::mutex mutex_;
  std::condition_variable decoded_;
  std::set<Key> in_work_;    // being decoded by some thread
  std::list<Entry> recent_;  // front = most recently used
  std::map<Key, std::list<Entry>::iterator> where_;
};

}  // namespace isobar::data
