// The digest of a large file, computed by all ranks together: each hashes its share of the file's blocks.
//
//   digest = SHA-256(SHA-256(block 0) SHA-256(block 1) ...)    blocks of 4 MiB, digests as 64 hex digits
//
// One file is never read by one rank alone: with n ranks of t threads it takes 1/(n t) of the time. What a
// thread hashes a second is OpenSSL's SHA-256: about 1.5 GB where the CPU has instructions for it, else 0.4.
#pragma once
#include <filesystem>
#include <string>

#include "model/inference/meeting.h"

namespace isobar {

constexpr int64_t kDigestBlock = int64_t{4} << 20;  // bytes; the digests in checkpoints rest on it

/// Collective: every rank has the file's final bytes before its eyes. The digest on rank 0, "" elsewhere.
std::string digest_of(const std::filesystem::path& file, const Meeting& all);

}  // namespace isobar
