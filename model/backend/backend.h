// A backend runs ops of one rank in one arena (and a second one in host memory, if anything is offloaded).
// The null backend runs none: the same engine, dry.
//
// launch() runs an op to its end (CPU) or enqueues it on the op's lane (GPU); sync() waits for all that was
// launched. Collectives are not the backend's: they go to model/comm.
#pragma once
#include <cstddef>
#include <functional>

#include "model/plan/link.h"

namespace isobar {

class Backend {
 public:
  /// Delivers the micro-batch's input and target, [B,C,H,W] f32 each, into the two buffers.
  using Fetch = std::function<void(int32_t micro, float* input, float* target)>;

  virtual ~Backend() = default;
  virtual void launch(const Op& op, int32_t micro, int32_t slot) = 0;
  virtual void sync() {}
  virtual const char* name() const = 0;

  void on_fetch(Fetch fetch) { fetch_ = std::move(fetch); }

  // ---- what the host reads and writes between programs: a persistent buffer in place (CPU), or a copy of it
  // that download() fills and upload() takes back (GPU) ----
  virtual std::byte* host(const View& v) { return at(v); }
  virtual void download(const std::vector<View>&) {}
  virtual void upload(const std::vector<View>&) {}
  virtual void drop_host_copies() {}  // of large buffers

  std::byte* at(const View& v, int32_t slot = 0) const {
    const int64_t begin = address(plan_, v, slot).first;
    return begin < plan_.memory.arena ? arena_ + begin : host_ + (begin - plan_.memory.arena);
  }

 protected:
  Backend(const Plan& plan, std::byte* arena, std::byte* host) : plan_(plan), arena_(arena), host_(host) {}
  const Plan& plan_;
  std::byte *arena_, *host_;
  Fetch fetch_;
};

}  // namespace isobar
