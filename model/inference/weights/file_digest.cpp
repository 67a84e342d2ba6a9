#include "model/inference/weights/file_digest.h"

#include <fcntl.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "model/base/text/hash.h"
#include "model/inference/weights/safetensors.h"

namespace isobar::inference {
namespace {

// Writes the digests of blocks `first`, `first + stride`, … below `end` to `out`, whose first element is that
// of block `begin`.
void hash_blocks(const OpenFile& file, int64_t size, int64_t begin, int64_t first, int64_t end,
                 int64_t stride, std::vector<std::string>& out) {
  std::string block;
  for (int64_t i = first; i < end; i += stride) {
    block.resize(static_cast<size_t>(std::min(kDigestBlock, size - i * kDigestBlock)));
    file.read_at(i * kDigestBlock, block.data(), static_cast<int64_t>(block.size()));
    out[static_cast<size_t>(i - begin)] = sha256_hex(block);
  }
}

}  // namespace

std::string digest_of(const std::filesystem::path& path, const Meeting& all) {
  const OpenFile file(path, O_RDONLY);
  const int64_t size = file.size(), blocks = (size + kDigestBlock - 1) / kDigestBlock;
  // Each rank gets adjacent blocks, so that it reads one contiguous piece of the file.
  const int64_t begin = blocks * all.rank / all.size, end = blocks * (all.rank + 1) / all.size;
  std::vector<std::string> own(static_cast<size_t>(end - begin));
  const int64_t threads = std::clamp<int64_t>(all.threads, 1, std::max<int64_t>(1, end - begin));
  std::vector<std::exception_ptr> failures(static_cast<size_t>(threads));
  std::vector<std::thread> others;
  const auto work = [&](int64_t t) {
    try {
      hash_blocks(file, size, begin, begin + t, end, threads, own);
    } catch (...) {
      failures[static_cast<size_t>(t)] = std::current_exception();
    }
  };
  for (int64_t t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& t : others) t.join();
  for (const auto& f : failures)
    if (f) std::rethrow_exception(f);

  std::string joined;
  for (const std::string& digest : own) joined += digest;
  const std::vector<std::string> parts = all.to_first(std::move(joined));
  if (all.rank != 0) return "";
  joined.clear();
  for (const std::string& part : parts) joined += part;
  return sha256_hex(joined);
}

}  // namespace isobar::inference
