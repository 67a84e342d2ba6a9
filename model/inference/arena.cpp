#include "model/inference/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace isobar::inference {

Arena::Arena(int64_t bytes) : bytes_(bytes) {
  void* p =
      ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    throw OutOfMemory("the host cannot give the arena of " + std::to_string(bytes / 1000000) +
                      " MB: " + std::strerror(errno) + "; use a smaller policy.micro_batch or net");
  data_ = static_cast<std::byte*>(p);
  // Ops stream through tens of megabytes, for which 4 kB pages cause thousands of TLB misses. Only advice:
  // the kernel may refuse.
  ::madvise(p, static_cast<size_t>(bytes), MADV_HUGEPAGE);
}

Arena::~Arena() {
  ::munmap(data_, static_cast<size_t>(bytes_));
}

}  // namespace isobar::inference
