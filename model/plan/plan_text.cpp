// The text of plans: golden files, `isobar plan`, and the plan's hash.
#include <cstdio>

#include "model/base/hash.h"
#include "model/plan/plan.h"
#include "model/plan/work.h"

namespace isobar {
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
  char s[160] = "";
  const auto text = [&s](const char* format, auto... values) {
    std::snprintf(s, sizeof s, format, values...);
  };
  if (const auto* gemm = std::get_if<GemmAttrs>(&op.attrs)) {
    text("%c%c %ldx%ldx%ld%s%s", gemm->trans_a ? 'T' : 'N', gemm->trans_b ? 'T' : 'N', gemm->m, gemm->n,
         gemm->k, gemm->accumulate ? " +=" : "", gemm->tf32 ? " tf32" : "");
  } else if (const AttentionAttrs* a = attention_in(op.attrs)) {
    text("b%ld h%ld/%ld q%ld k%ld d%ld%s%s%s", a->batch, a->heads, a->kv_heads, a->tq, a->tk, a->d,
         a->causal ? " causal" : "", a->tf32 ? " tf32" : "",
         a->last_counts == 1 ? "" : (" last x" + std::to_string(a->last_counts)).c_str());
  } else if (const ImageAttrs* image = image_of(op.attrs)) {
    text("b%ld c%ld %ldx%ld p%ld", image->batch, image->channels, image->height, image->width, image->patch);
  } else if (op.kind == OpKind::exchange) {
    text("%ld out %ld in", op.as<TransferAttrs>().send.at(0), op.as<TransferAttrs>().receive.at(0));
  } else if (const Extent of = extent_of(op.attrs); of.rows || of.cols) {
    const auto* activation = std::get_if<ActivationAttrs>(&op.attrs);
    const bool other = activation && activation->function != Activation::gelu;
    text("%ldx%ld%s%s%s", of.rows, of.cols, accumulates(op.attrs) ? " +=" : "", other ? " " : "",
         other ? name_of(activation->function) : "");
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
