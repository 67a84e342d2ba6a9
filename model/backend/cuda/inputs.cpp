#include "model/backend/cuda/inputs.h"

#include <algorithm>

namespace isobar::cuda {

Inputs::Inputs(const plan::Plan& plan) : plan_(plan) {
  for (const plan::Op& op : plan.ops) {
    if (op.kind != plan::OpKind::fetch) continue;
    int64_t bytes = 0;
    for (const plan::View& v : op.writes) bytes += static_cast<int64_t>(bytes_of(v));
    bytes_ = std::max(bytes_, bytes);
  }
}

size_t Inputs::bytes_of(const plan::View& v) const {
  if (!v) return 0;
  return static_cast<size_t>(v.count * size_of(plan_.buffers[static_cast<size_t>(v.buffer)].dtype));
}

Inputs::Places Inputs::one_after_the_other(const plan::Op& fetch, std::byte* begin) const {
  Places out;
  for (const plan::View& v : fetch.writes) {
    out.push_back(v ? begin : nullptr);
    begin += bytes_of(v);
  }
  return out;
}

void Inputs::copy_views(const plan::Op& fetch, const std::byte* from, const Places& to, cudaMemcpyKind kind,
                        cudaStream_t stream) const {
  for (size_t i = 0; i < to.size(); ++i) {
    if (fetch.writes[i]) ISOBAR_CUDA(cudaMemcpyAsync(to[i], from, bytes_of(fetch.writes[i]), kind, stream));
    from += bytes_of(fetch.writes[i]);
  }
}

Inputs::~Inputs() {
  if (!stream_) return;
  cudaStreamSynchronize(stream_);  // pending copies may still read the pinned memory
  cudaStreamDestroy(stream_);
}

void Inputs::reserve(int count) {
  while (this->count() < count) pinned_.push_back(std::make_unique<Pinned>(bytes_));
}

bool Inputs::reserve_ahead(int count, int64_t most) {
  if (count == 0 || 2 * count * bytes_ > most) return false;
  reserve(count);
  for (Landing& set : landing_)
    while (static_cast<int>(set.buffers.size()) < count)
      set.buffers.push_back(std::make_unique<DeviceArena>(bytes_));
  if (!stream_) ISOBAR_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0));
  return true;
}

int64_t Inputs::landing_bytes() const {
  return 2 * bytes_ * static_cast<int64_t>(landing_[0].buffers.size());
}

Inputs::Places Inputs::to_fill(const plan::Op& fetch, int index) {
  Pinned& p = *pinned_.at(static_cast<size_t>(index));
  if (p.in_use) ISOBAR_CUDA(cudaEventSynchronize(p.copied.get()));
  p.in_use = false;
  return one_after_the_other(fetch, p.memory.data());
}

void Inputs::copy(const plan::Op& fetch, int index, const Places& to, cudaStream_t stream) {
  copy_views(fetch, pinned_.at(static_cast<size_t>(index))->memory.data(), to, cudaMemcpyHostToDevice,
             stream);
}

void Inputs::in_use(int index, cudaStream_t stream) {
  Pinned& p = *pinned_.at(static_cast<size_t>(index));
  ISOBAR_CUDA(cudaEventRecord(p.copied.get(), stream));
  p.in_use = true;
}

void Inputs::send(const plan::Op& fetch, int index, int set) {
  std::byte* const to = landing_[static_cast<size_t>(set)].buffers.at(static_cast<size_t>(index))->data();
  copy(fetch, index, one_after_the_other(fetch, to), stream_);
  in_use(index, stream_);
}

void Inputs::sent(int set) {
  ISOBAR_CUDA(cudaEventRecord(landing_[static_cast<size_t>(set)].sent.get(), stream_));
}

void Inputs::wait(int set, cudaStream_t stream) {
  ISOBAR_CUDA(cudaStreamWaitEvent(stream, landing_[static_cast<size_t>(set)].sent.get(), 0));
}

void Inputs::land(const plan::Op& fetch, int index, int set, const Places& to, cudaStream_t stream) {
  const std::byte* from = landing_[static_cast<size_t>(set)].buffers.at(static_cast<size_t>(index))->data();
  copy_views(fetch, from, to, cudaMemcpyDeviceToDevice, stream);
}

}  // namespace isobar::cuda
