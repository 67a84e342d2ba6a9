// The last decoded chunks, for files whose chunks span several time steps: without it each sample inflates a
// whole chunk again. Bounded by bytes, least recently used goes first. Shared by all files of one data set.
#pragma once
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace isobar {

class ChunkCache {
 public:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;
  using Key = std::pair<const void*, int64_t>;  // array, linear chunk number

  explicit ChunkCache(int64_t budget_bytes) : budget_(budget_bytes) {}

  int64_t budget() const { return budget_; }
  Bytes find(const Key& key);  // null when absent
  void insert(const Key& key, Bytes bytes);

 private:
  struct Entry {
    Key key;
    Bytes bytes;
  };
  int64_t budget_, used_ = 0;
  std::mutex mutex_;
  std::list<Entry> recent_;  // front = most recently used
  std::map<Key, std::list<Entry>::iterator> where_;
};

}  // namespace isobar
