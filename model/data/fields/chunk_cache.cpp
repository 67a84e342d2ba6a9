#include "model/data/fields/chunk_cache.h"

#include <exception>

namespace isobar::data {

ChunkCache::Bytes ChunkCache::find_or(const Key& key, const std::function<Bytes()>& decode) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (Bytes there = find(key)) return there;
    if (in_work_.insert(key).second) break;
    decoded_.wait(lock);
  }
  lock.unlock();
  Bytes fresh;
  std::exception_ptr error;
  try {
    fresh = decode();
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  in_work_.erase(key);
  if (fresh) insert(key, fresh);
  lock.unlock();
  decoded_.notify_all();
  if (error) std::rethrow_exception(error);
  return fresh;
}

ChunkCache::Bytes ChunkCache::find(const Key& key) {
  auto it = where_.find(key);
  if (it == where_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, it->second);
  return it->second->bytes;
}

void ChunkCache::insert(const Key& key, Bytes bytes) {
  const auto size = static_cast<int64_t>(bytes->size());
  if (size > budget_ || where_.contains(key)) return;
  while (used_ + size > budget_) {
    used_ -= static_cast<int64_t>(recent_.back().bytes->size());
    where_.erase(recent_.back().key);
    recent_.pop_back();
  }
  recent_.push_front({key, std::move(bytes)});
  where_[key] = recent_.begin();
  used_ += size;
}

}  // namespace isobar::data
