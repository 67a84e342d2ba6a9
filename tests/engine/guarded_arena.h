// An arena of exactly the planned bytes: any access beyond it ends the process, and it reports how much of
// its working memory a run has used.
//
//   const GuardedArena arena(plan.memory.arena);
//   arena.poison(plan);               // activations and scratch begin as no numbers
//   … a step …
//   const Idle idle = arena.idle(plan);
//   idle.scratch <= idle.excused && idle.saved <= kSlack
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "model/plan/plan.h"

namespace isobar::engine {

/// A region's last buffer ends within a cache line of the region's end, and its last element was written.
constexpr int64_t kSlack = 64 + 4;

struct Idle {       // unwritten bytes at the end of each region
  int64_t scratch;  // of all of the arena
  int64_t saved;
  int64_t excused;  // scratch: workspace is an upper bound and may be unused
};

class GuardedArena {  // followed by an inaccessible page; zero, as the engine's
 public:
  explicit GuardedArena(int64_t bytes) : bytes_(bytes) {
    const int64_t page = 4096, whole = (bytes + page - 1) / page * page;
    size_ = static_cast<size_t>(whole + page);
    void* p = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(p);
    if (::mprotect(base_ + whole, page, PROT_NONE) != 0) throw std::bad_alloc();
    data_ = base_ + whole - bytes;
  }
  ~GuardedArena() { ::munmap(base_, size_); }
  GuardedArena(const GuardedArena&) = delete;
  GuardedArena& operator=(const GuardedArena&) = delete;
  std::byte* data() const { return data_; }

  void poison(const plan::Plan& plan) const {
    const int64_t n = region(plan, plan::BufferKind::scratch) + region(plan, plan::BufferKind::saved);
    std::memset(data_ + bytes_ - n, 0xff, static_cast<size_t>(n));
  }
  Idle idle(const plan::Plan& plan) const {
    const auto untouched = [&](int64_t end) {
      int64_t n = 0;
      while (n < end && data_[end - 1 - n] == std::byte{0xff}) ++n;
      return n;
    };
    int64_t top = 0;
    for (const plan::Buffer& b : plan.buffers)
      if (b.name.ends_with(".workspace") && b.offset + b.bytes() > bytes_ - 64)
        top = std::max(top, b.bytes());
    return {untouched(bytes_), untouched(bytes_ - region(plan, plan::BufferKind::scratch)), kSlack + top};
  }

 private:
  static int64_t region(const plan::Plan& plan, plan::BufferKind kind) {
    return plan.memory.by_kind[static_cast<int>(kind)];
  }
  std::byte *base_, *data_;
  size_t size_;
  int64_t bytes_;
};

}  // namespace isobar::engine
