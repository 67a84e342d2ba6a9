// Transports of the transfer tests: MPI between host buffers or, with ISOBAR_TEST_NCCL, NCCL between device
// copies of them, one stream a group, with several ranks on a GPU if necessary.
#pragma once
#include "model/comm/comm.h"

#ifndef ISOBAR_TEST_NCCL

namespace isobar::comm {
using TestComm = Comm;
using TestRequests = Requests;
}  // namespace isobar::comm

#else

#include <algorithm>
#include <memory>

#include "model/backend/cuda/runtime/device.h"
#include "model/comm/nccl/nccl_comm.h"

namespace isobar::comm {

struct Mirror {  // an output and its copy on the device
  std::byte *host, *device;
  int64_t bytes;
};

struct TestRequests {
  std::vector<Mirror> buffers;
  std::unique_ptr<cuda::Event> done;
};

class TestComm {
 public:
  explicit TestComm(const std::vector<plan::Group>& groups)
      : bootstrap_(groups),
        nccl_(groups, world_rank(), static_cast<int>(cuda::find_devices().all.size()) < world_size(),
              bootstrap_, 60),
        streams_(groups.size()) {
    for (cudaStream_t& s : streams_) ISOBAR_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  }
  ~TestComm() {
    for (cudaStream_t s : streams_) cudaStreamDestroy(s);
  }
  TestComm(const TestComm&) = delete;
  TestComm& operator=(const TestComm&) = delete;

  TestRequests post(const plan::Op& op, const void* in, Extent counts, void* out, DType t) {
    cudaStream_t stream = streams_.at(op.as<plan::TransferAttrs>().group);
    TestRequests r;
    auto* from = static_cast<std::byte*>(const_cast<void*>(in));
    auto* to = static_cast<std::byte*>(out);
    const int64_t in_bytes = counts.in * size_of(t), out_bytes = counts.out * size_of(t);
    const bool overlap = from && to && from < to + out_bytes && to < from + in_bytes;
    std::byte *device_in = nullptr, *device_out = nullptr;
    if (overlap || from == to) {  // one copy of both, so that in-place calls stay in place
      std::byte* begin = std::min(from, to);
      std::byte* copy = mirror(r, begin, std::max(from + in_bytes, to + out_bytes) - begin, stream);
      device_in = copy + (from - begin);
      device_out = copy + (to - begin);
    } else {
      TestRequests only_read;
      if (from) device_in = mirror(only_read, from, in_bytes, stream);
      if (to) device_out = mirror(r, to, out_bytes, stream);
    }
    nccl_.launch(op, device_in, counts.in, device_out, counts.out, nullptr, t, stream);
    r.done = std::make_unique<cuda::Event>();
    ISOBAR_CUDA(cudaEventRecord(r.done->get(), stream));
    return r;
  }

  bool test(TestRequests& r) {
    const cudaError_t state = cudaEventQuery(r.done->get());
    nccl_.check();
    if (state == cudaErrorNotReady) return false;
    ISOBAR_CUDA(state);
    for (const Mirror& m : r.buffers)  // now: a copy to pageable memory blocks its caller
      ISOBAR_CUDA(cudaMemcpy(m.host, m.device, m.bytes, cudaMemcpyDeviceToHost));
    return true;
  }

 private:
  static int world_rank() {
    int r = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &r);
    return r;
  }
  static int world_size() {
    int n = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    return n;
  }
  // Sub-allocated from one block: nothing is allocated while other ranks wait for this one.
  std::byte* mirror(TestRequests& r, std::byte* host, int64_t bytes, cudaStream_t stream) {
    if (bytes == 0) return nullptr;
    if (used_ + bytes > memory_.bytes()) used_ = 0;
    std::byte* device = memory_.data() + used_;
    used_ += (bytes + 255) / 256 * 256;
    r.buffers.push_back({host, device, bytes});
    ISOBAR_CUDA(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream));
    return device;
  }
  Comm bootstrap_;
  NcclComm nccl_;
  std::vector<cudaStream_t> streams_;
  cuda::DeviceArena memory_{int64_t{64} << 20};
  int64_t used_ = 0;
};

}  // namespace isobar::comm

#endif
