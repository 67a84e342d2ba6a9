// The digest of a large file, computed by all ranks: each hashes its share of the file's blocks.
//
//   digest = SHA-256(SHA-256(block 0) SHA-256(block 1) ...)    blocks of 4 MiB, digests as 64 hex digits
//
// A hash of blocks, because a plain SHA-256 is sequential: n ranks of t threads take 1/(n t) of the time.
#pragma once
#include <filesystem>
#include <string>

#include "model/inference/meeting.h"

namespace isobar::inference {

constexpr int64_t kDigestBlock = int64_t{4} << 20;  // bytes; digests in checkpoints depend on it

/// Collective, after all writes are visible to every rank. Returns the digest on rank 0, "" elsewhere.
std::string digest_of(const std::filesystem::path& file, const Meeting& all);

}  // namespace isobar::inference
