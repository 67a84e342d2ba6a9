#include "model/plan/plan.h"

#include <cstdio>
#include <stdexcept>

#include "model/base/hash.h"
#include "model/base/settings.h"
#include "model/plan/work.h"

namespace isobar {

const char* name_of(Lane l) {
  static const char* names[] = {
      "compute",       "tp",  "cp", "dp", "recv_forward", "send_forward", "recv_backward",
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

namespace {

std::string operand(const Plan& plan, const View& v) {
  if (!v) return "-";
  const Buffer& b = plan.buffers[v.buffer];
  std::string s = b.name;
  if (v.offset != 0 || v.count != b.count)
    s += "[" + std::to_string(v.offset) + ":" + std::to_string(v.offset + v.count) + "]";
  if (v.back != 0) s += v.back > 0 ? "@-" + std::to_string(v.back) : "@+" + std::to_string(-v.back);
  return s;
}

}  // namespace

std::string shape_text(const Op& op) {
  const Attrs& a = op.a;
  char s[160] = "";
  switch (op.kind) {
    case OpKind::gemm:
      std::snprintf(s, sizeof s, "%c%c %ldx%ldx%ld%s%s", a.trans_a ? 'T' : 'N', a.trans_b ? 'T' : 'N', a.m,
                    a.n, a.k, a.accumulate ? " +=" : "", a.tf32 ? " tf32" : "");
      break;
    case OpKind::attention:
    case OpKind::attention_backward:
    case OpKind::attention_merge:
      std::snprintf(s, sizeof s, "b%ld h%ld/%ld q%ld k%ld d%ld%s%s%s", a.batch, a.heads, a.kv_heads, a.tq,
                    a.tk, a.d, a.causal ? " causal" : "", a.tf32 ? " tf32" : "",
                    a.each == 1 ? "" : (" last x" + std::to_string(a.each)).c_str());
      break;
    case OpKind::patch_gather:
    case OpKind::loss_sums:
    case OpKind::loss:
    case OpKind::loss_backward:
    case OpKind::fetch:
      std::snprintf(s, sizeof s, "b%ld c%ld %ldx%ld p%ld", a.batch, a.channels, a.height, a.width, a.patch);
      break;
    case OpKind::exchange:
      std::snprintf(s, sizeof s, "%ld out %ld in", a.send.at(0), a.receive.at(0));
      break;
    default:
      if (a.m || a.n)
        std::snprintf(s, sizeof s, "%ldx%ld%s%s%s", a.m, a.n, a.accumulate ? " +=" : "",
                      a.activation == Activation::gelu ? "" : " ",
                      a.activation == Activation::gelu ? "" : name_of(a.activation).c_str());
  }
  return s;
}

std::string to_text(const Plan& plan) {
  std::string out;
  char line[512];
  std::snprintf(line, sizeof line, "plan rank %d of %d, %ld parameters, arena %ld bytes\n", plan.rank,
                plan.world, plan.parameter_count(), plan.memory.arena);
  out += line;
  for (const Group& g : plan.groups) {
    out += "group " + g.name + ":";
    for (int r : g.ranks) out += " " + std::to_string(r);
    out += "\n";
  }
  for (int k = 0; k < kBufferKinds; ++k) {
    if (plan.memory.by_kind[k] == 0) continue;
    std::snprintf(line, sizeof line, "memory %-9s %15ld bytes\n", name_of(static_cast<BufferKind>(k)),
                  plan.memory.by_kind[k]);
    out += line;
  }
  for (const Constant& c : plan.constants) {
    const Buffer& b = plan.buffers[c.at.buffer];
    std::string content(static_cast<size_t>(b.bytes()), 0);
    c.fill(content.data());
    out += "constant " + b.name + " " + name_of(b.dtype) + " " + std::to_string(b.count) + " sha256 " +
           sha256_hex(content).substr(0, 16) + "\n";
  }
  for (const Routine& r : plan.routines) {
    std::snprintf(line, sizeof line, "routine %s chunk %d: %d ops\n", r.name.c_str(), r.chunk, r.count);
    out += line;
    for (int i = r.first; i < r.first + r.count; ++i) {
      const Op& op = plan.ops[i];
      const Work w = work(op, plan);
      std::snprintf(line, sizeof line, "  %-42s %-8s %-22s %-26s %12.4g F %12.4g B", op.path.c_str(),
                    name_of(op.lane), name_of(op.kind), shape_text(op).c_str(), w.flops, w.bytes());
      out += line;
      if (w.wire_bytes > 0) {
        std::snprintf(line, sizeof line, " %12.4g wire", w.wire_bytes);
        out += line;
      }
      out += " |";
      for (const View& v : op.reads) out += " " + operand(plan, v);
      out += " ->";
      for (const View& v : op.writes) out += " " + operand(plan, v);
      out += "\n";
    }
  }
  const auto list = [&](const char* title, const std::vector<Invocation>& invocations) {
    out += title;
    for (const Invocation& i : invocations) {
      out += " " + plan.routines[i.routine].name;
      if (plan.routines[i.routine].pass == Pass::forward || plan.routines[i.routine].pass == Pass::backward)
        out += "(" + std::to_string(i.micro) + ")@" + std::to_string(i.slot);
    }
    out += "\n";
  };
  list("init:", plan.init);
  list("step:", plan.train);
  for (size_t i = 0; i < plan.shorter.size(); ++i)
    list(("train " + std::to_string(i + 1) + ":").c_str(), plan.shorter[i]);
  list("eval:", plan.eval);
  if (!plan.exchange.empty()) list("exchange:", plan.exchange);
  return out;
}

}  // namespace isobar
