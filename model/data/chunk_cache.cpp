#include "model/data/chunk_cache.h"

namespace isobar {

ChunkCache::Bytes ChunkCache::find(const Key& key) {
  std::lock_guard lock(mutex_);
  auto it = where_.find(key);
  if (it == where_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, it->second);
  return it->second->bytes;
}

void ChunkCache::insert(const Key& key, Bytes bytes) {
  const auto size = static_cast<int64_t>(bytes->size());
  std::lock_guard lock(mutex_);
  if (size > budget_ || where_.contains(key)) return;  // two threads may decode the same chunk at once
  while (used_ + size > budget_) {
    used_ -= static_cast<int64_t>(recent_.back().bytes->size());
    where_.erase(recent_.back().key);
    recent_.pop_back();
  }
  recent_.push_front({key, std::move(bytes)});
  where_[key] = recent_.begin();
  used_ += size;
}

}  // namespace isobar
