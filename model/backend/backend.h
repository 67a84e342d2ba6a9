// A backend runs one rank's ops in one arena (and a second one in host memory, for offloading). The null
// backend computes nothing: a dry run of the same engine.
//
// launch() runs an op to completion (CPU) or enqueues it on the op's lane (GPU); sync() waits for all
// launched ops. Collectives belong to model/comm.
#pragma once
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <utility>

#include "model/backend/batch_places.h"
#include "model/plan/link.h"

namespace isobar {

class Backend {
 public:
  /// Fills the tensors of a micro-batch.
  using Fetch = std::function<void(int32_t micro, const BatchPlaces& to)>;

  virtual ~Backend() = default;
  virtual void launch(const plan::Op& op, int32_t micro, int32_t slot) = 0;
  virtual void sync() {}
  virtual const char* name() const = 0;

  /// `more`: the next run of the program continues with the following samples, so a backend may fetch them
  /// early.
  void on_fetch(Fetch fetch, bool more = false) {
    fetch_ = std::move(fetch);
    more_ = more;
  }
  bool more_to_fetch() const { return more_; }
  bool fetches() const { return static_cast<bool>(fetch_); }
  /// During a Fetch: true if the device computes meanwhile, so that the fetch costs no time.
  bool fetch_is_hidden() const { return hidden_; }

  // ---- host access between programs: a persistent buffer in place (CPU), or a copy that download() fills
  // and upload() writes back (GPU) ----
  virtual std::byte* host(const plan::View& v) { return at(v); }
  virtual void download(const std::vector<plan::View>&) {}
  virtual void upload(const std::vector<plan::View>&) {}
  virtual void drop_host_copies() {}  // of large buffers

  /// Fills the plan's constant buffers; call once, before any program runs.
  void load_constants() {
    for (const plan::Constant& c : plan_.constants) {
      c.fill(host(c.at));
      upload({c.at});
    }
    if (!plan_.constants.empty()) drop_host_copies();
  }

  const plan::Plan& plan() const { return plan_; }
  /// Addresses of an op's writes in a slot; null if absent.
  std::vector<std::byte*> places(const plan::Op& op, int32_t slot) const {
    std::vector<std::byte*> out;
    for (const plan::View& v : op.writes) out.push_back(v ? at(v, slot) : nullptr);
    return out;
  }
  std::byte* at(const plan::View& v, int32_t slot = 0) const {
    const int64_t begin = plan::address(plan_, v, slot).first;
    return begin < plan_.memory.arena ? arena_ + begin : host_ + (begin - plan_.memory.arena);
  }

 protected:
  /// `to`: an address for each of the op's writes, null if absent.
  void fetch(const plan::Op& op, int32_t micro, std::vector<std::byte*> to, bool hidden = false) {
    if (!fetch_) throw std::logic_error(op.path + ": there is no data source");
    hidden_ = hidden;
    fetch_(micro, {plan_, std::move(to)});
    hidden_ = false;
  }
  Backend(const plan::Plan& plan, std::byte* arena, std::byte* host)
      : plan_(plan), arena_(arena), host_(host) {}
  const plan::Plan& plan_;
  std::byte *arena_, *host_;

 private:
  Fetch fetch_;
  bool more_ = false, hidden_ = false;
};

}  // namespace isobar
