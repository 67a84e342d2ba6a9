// Multiprocessors and memory that NCCL takes of a GPU while kernels run beside its transfers. Both follow
// from the number of its channels: a channel is one block (CTA) that stays on one multiprocessor, with
// buffers to and from its neighbours (NCCL user guide, NCCL_MAX_NCHANNELS: "the number of CUDA blocks used
// for communication").
//
//   const int channels = nccl_channels(std::getenv);       // 24, or what NCCL_MAX_CTAS allows
//   sms_beside_nccl(132, channels)                         // 108: for products
//   nccl_buffer_bytes(2)                                   // two communicators: 462 MB
//
// These are estimates: NCCL chooses its channels by the links that it finds, does not report their number,
// and allocates buffers when an algorithm is first used. Trees, NVLS and the sender's side of a network are
// not counted.
#pragma once
#include <cstdint>
#include <functional>

namespace isobar {

/// Channels that NCCL 2.18 to 2.28 reports on eight A100 or H100 with NVSwitch (NCCL_DEBUG=INFO: "24 coll
/// channels"); fewer over PCIe.
inline constexpr int kNcclChannels = 24;

/// Bytes of a channel's buffers from one neighbour, one for each protocol (computeBuffSizes in NCCL's
/// src/init.cc): Simple 4 MiB (NCCL_BUFFSIZE), LL 8 lines x 512 threads x 8 steps x 16 B, LL128 120 elements
/// x 640 threads x 8 steps x 8 B.
inline constexpr int64_t kNcclChannelBytes =
    (int64_t{4} << 20) + int64_t{8} * 512 * 8 * 16 + int64_t{120} * 640 * 8 * 8;

/// Channels of a communicator. `variable(name)` returns an environment variable or null, as std::getenv;
/// NCCL_MAX_CTAS and NCCL_MAX_NCHANNELS are upper bounds. Throws ConfigError where one is not a positive
/// number: NCCL would ignore it.
int nccl_channels(const std::function<const char*(const char*)>& variable);

/// Multiprocessors left for other kernels, never fewer than half: a GPU that small has few links, and NCCL
/// makes fewer channels for it.
int sms_beside_nccl(int all, int channels);

/// Buffer bytes on one rank for `communicators` of two or more ranks: one set a channel, from the ring
/// neighbour.
inline int64_t nccl_buffer_bytes(int64_t communicators, int channels = kNcclChannels) {
  return communicators * channels * kNcclChannelBytes;
}

}  // namespace isobar
