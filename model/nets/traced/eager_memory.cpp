#include "model/nets/traced/eager_memory.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace isobar::nets {
namespace {

/// Walks a step twice: for the last use of each tensor, and for the bytes that live at once.
class EagerWalk {
 public:
  explicit EagerWalk(const plan::Plan& plan) : plan_(plan), bytes_(plan.memory) {
    for (const plan::BufferKind k :
         {plan::BufferKind::grads, plan::BufferKind::saved, plan::BufferKind::scratch})
      of(bytes_, k) = 0;
  }

  plan::Memory run() {
    each([&](const Key& key, int64_t now, bool) { last_[key] = now; });
    of(bytes_, plan::BufferKind::grads) = 0;
    made_.assign(plan_.params.size(), false);
    plan::Memory most = bytes_;
    each([&](const Key& key, int64_t now, bool written) {
      const plan::Buffer& b = buffer(key);
      if (written && live_.emplace(key, now).second) of(bytes_, b.kind) += b.bytes();
      if (total(bytes_) > total(most)) most = bytes_;
      if (last_.at(key) == now) ends_.push_back(key);
    });
    most.arena = total(most);
    return most;
  }

 private:
  using Key = std::tuple<int32_t, int32_t>;  // a buffer; its micro-batch, or its invocation

  const plan::Buffer& buffer(const Key& key) const {
    return plan_.buffers[static_cast<size_t>(std::get<0>(key))];
  }
  static int64_t& of(plan::Memory& m, plan::BufferKind k) { return m.by_kind[static_cast<int>(k)]; }
  static int64_t total(const plan::Memory& m) {
    int64_t all = 0;
    for (int k = 0; k < plan::kBufferKinds; ++k)
      if (static_cast<plan::BufferKind>(k) != plan::BufferKind::host) all += m.by_kind[k];
    return all;
  }

  // Calls `use` for each tensor that an op writes, then for those that it reads.
  template <class Use>
  void each(const Use& use) {
    int64_t now = 0;
    int32_t invocation = 0;
    for (const plan::Invocation& i : plan_.train) {
      const plan::Routine& r = plan_.routines[static_cast<size_t>(i.routine)];
      for (int32_t at = r.first; at < r.first + r.count; ++at, ++now) {
        const plan::Op& op = plan_.ops[static_cast<size_t>(at)];
        for (const bool written : {true, false})
          for (const plan::View& v : written ? op.writes : op.reads) {
            if (!v) continue;
            const plan::BufferKind kind = plan_.buffers[static_cast<size_t>(v.buffer)].kind;
            if (kind == plan::BufferKind::saved || kind == plan::BufferKind::scratch)
              use({v.buffer, kind == plan::BufferKind::saved ? i.micro : invocation}, now, written);
            else if (kind == plan::BufferKind::grads && written && r.pass == plan::Pass::backward)
              add_gradient(v);
          }
        release();
      }
      ++invocation;
    }
  }

  void release() {
    for (const Key& key : ends_)
      if (live_.erase(key) > 0) of(bytes_, buffer(key).kind) -= buffer(key).bytes();
    ends_.clear();
  }

  void add_gradient(const plan::View& v) {
    const plan::Buffer& b = plan_.buffers[static_cast<size_t>(v.buffer)];
    for (size_t i = 0; i < plan_.params.size(); ++i) {
      const plan::Param& p = plan_.params[i];
      if (made_.empty() || made_[i] || p.offset < v.offset || p.offset >= v.offset + v.count) continue;
      made_[i] = true;
      of(bytes_, plan::BufferKind::grads) += p.count * size_of(b.dtype);
    }
  }

  const plan::Plan& plan_;
  plan::Memory bytes_;  // that live now
  std::vector<bool> made_;
  std::map<Key, int64_t> last_, live_;
  std::vector<Key> ends_;
};

}  // namespace

plan::Memory eager_memory(const plan::Plan& plan) {
  return EagerWalk(plan).run();
}

plan::Memory step_memory(const RunSpec& spec, const plan::Plan& plan) {
  if (!spec.net.recorded()) return plan.memory;
  plan::Memory m = eager_memory(plan);
  if (!has_buckets(spec.net, spec.layout.dp, spec.policy.zero)) return m;
  int64_t buckets = 0;
  for (const plan::Param& p : plan.params) buckets += p.frozen ? 0 : p.count * size_of(DType::f32);
  m.by_kind[static_cast<int>(plan::BufferKind::grads)] += buckets;
  m.arena += buckets;
  return m;
}

}  // namespace isobar::nets
