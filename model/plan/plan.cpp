#include "model/plan/plan.h"

#include <stdexcept>

namespace isobar::plan {

const char* name_of(Lane l) {
  static const char* names[] = {
      "compute",       "tp",  "cp", "ep", "dp", "recv_forward", "send_forward", "recv_backward",
      "send_backward", "h2d", "d2h"};
  return names[static_cast<int>(l)];
}

const char* name_of(BufferKind k) {
  static const char* names[] = {"params",    "params16", "grads",   "adam", "io",
                                "constants", "saved",    "scratch", "host"};
  return names[static_cast<int>(k)];
}

const Metric& Plan::metric(const std::string& name) const {
  for (const Metric& m : metrics_named)
    if (m.name == name) return m;
  throw std::out_of_range("the net has no metric " + name);
}

namespace {

int64_t count_of(const Tensor& t) {
  int64_t count = 1;
  for (int64_t extent : t.shape) count *= extent;
  return count;
}

}  // namespace

int64_t Plan::parameter_count() const {
  int64_t n = 0;
  for (const Tensor& t : tensors) n += count_of(t);
  return n;
}

int64_t Plan::trained_count() const {
  int64_t n = 0;
  for (const Tensor& t : tensors) n += t.frozen ? 0 : count_of(t);
  return n;
}

}  // namespace isobar::plan
