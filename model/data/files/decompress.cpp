#include "model/data/files/decompress.h"

#include <blosc.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "model/data/files/raw_array.h"

namespace isobar::data {

namespace {

/// Copies n bytes from `back` before `at`; source and destination may overlap.
void repeat(std::byte* at, int64_t back, int64_t n) {
  if (back >= n) {
    std::memcpy(at, at - back, static_cast<size_t>(n));
    return;
  }
  for (int64_t i = 0; i < n; ++i) at[i] = at[i - back];
}

/// A stream of tokens, each with literals and a copy of earlier output.
class Lz4Block {
 public:
  Lz4Block(Stored in, std::byte* out, int64_t room) : in_(in), out_(out), room_(room) {}

  int64_t undo() {
    while (at_ < in_.size()) {
      const auto token = static_cast<unsigned>(in_[at_++]);
      const int64_t literals = length(token >> 4);
      if (literals > static_cast<int64_t>(in_.size() - at_) || literals > room_ - done_) torn();
      if (literals > 0) std::memcpy(out_ + done_, &in_[at_], static_cast<size_t>(literals));
      at_ += static_cast<size_t>(literals), done_ += literals;
      if (at_ == in_.size()) return done_;  // the last token has no copy
      if (in_.size() - at_ < 2) torn();
      const int64_t back = static_cast<int64_t>(in_[at_]) | static_cast<int64_t>(in_[at_ + 1]) << 8;
      at_ += 2;
      const int64_t copied = length(token & 15u) + 4;
      if (back == 0 || back > done_ || copied > room_ - done_) torn();
      repeat(out_ + done_, back, copied);
      done_ += copied;
    }
    torn();
  }

 private:
  [[noreturn]] static void torn() { corrupt("its lz4 block is torn"); }
  int64_t length(unsigned nibble) {
    int64_t n = nibble;
    for (unsigned more = nibble == 15 ? 255 : 0; more == 255; n += more) {
      if (at_ == in_.size() || n > room_) torn();
      more = static_cast<unsigned>(in_[at_++]);
    }
    return n;
  }
  Stored in_;
  std::byte* out_;
  int64_t room_, done_ = 0;
  size_t at_ = 0;
};

}  // namespace

void corrupt(const std::string& what) {
  throw ArrayError("a chunk does not decode: " + what, "it is damaged: copy or download it again");
}

int64_t unzstd(Stored in, std::byte* out, int64_t room) {
  thread_local const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                                ZSTD_freeDCtx);
  const size_t n = ZSTD_decompressDCtx(context.get(), out, static_cast<size_t>(room), in.data(), in.size());
  if (ZSTD_isError(n)) corrupt(std::string("zstd: ") + ZSTD_getErrorName(n));
  return static_cast<int64_t>(n);
}

int64_t unblosc(Stored in, std::byte* out, int64_t room) {
  size_t n = 0;
  if (in.size() < BLOSC_MIN_HEADER_LENGTH || blosc_cbuffer_validate(in.data(), in.size(), &n) < 0 ||
      static_cast<int64_t>(n) > room)
    corrupt("blosc finds its header false");
  const int rc = blosc_decompress_ctx(in.data(), out, n, 1);
  if (rc < 0 || static_cast<size_t>(rc) != n) corrupt("blosc error " + std::to_string(rc));
  return static_cast<int64_t>(n);
}

int64_t unlz4(Stored in, std::byte* out, int64_t room) {
  return Lz4Block(in, out, room).undo();
}

int64_t unlzf(Stored in, std::byte* out, int64_t room) {
  const auto torn = [] { corrupt("its lzf stream is torn"); };
  int64_t done = 0;
  const size_t size = in.size();
  for (size_t at = 0; at < size;) {
    const auto control = static_cast<size_t>(in[at++]);
    if (control < 32) {
      const size_t n = control + 1;
      if (n > size - at || static_cast<int64_t>(n) > room - done) torn();
      std::memcpy(out + done, &in[at], n);
      at += n, done += static_cast<int64_t>(n);
      continue;
    }
    int64_t n = static_cast<int64_t>(control >> 5) + 2;
    if (n == 9) {
      if (at == size) torn();
      n += static_cast<int64_t>(in[at++]);
    }
    if (at == size) torn();
    const int64_t back = static_cast<int64_t>((control & 31) << 8) + static_cast<int64_t>(in[at++]) + 1;
    if (back > done || n > room - done) torn();
    repeat(out + done, back, n);
    done += n;
  }
  return done;
}

bool is_fletcher32(Stored in, uint32_t sum) {
  uint64_t a = 0, b = 0;
  const auto add = [&](uint64_t word) { a = (a + word) % 65535, b = (b + a) % 65535; };
  size_t i = 0;
  for (; i + 1 < in.size(); i += 2) add(static_cast<uint64_t>(in[i]) << 8 | static_cast<uint64_t>(in[i + 1]));
  if (i < in.size()) add(static_cast<uint64_t>(in[i]) << 8);
  return (sum & 0xffffu) % 65535 == a && (sum >> 16) % 65535 == b;  // HDF5 may write 65535 for 0
}

uint32_t crc32c(Stored in) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
      t[i] = c;
    }
    return t;
  }();
  uint32_t crc = ~0u;
  for (const std::byte b : in) crc = crc >> 8 ^ table[(crc ^ static_cast<uint32_t>(b)) & 255u];
  return ~crc;
}

}  // namespace isobar::data
