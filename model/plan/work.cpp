#include "model/plan/work.h"

#include <algorithm>
#include <cmath>

#include "model/plan/link.h"

namespace isobar {

Work& Work::operator+=(const Work& o) {
  flops += o.flops;
  vector_flops += o.vector_flops;
  bytes_read += o.bytes_read;
  bytes_written += o.bytes_written;
  wire_bytes += o.wire_bytes;
  messages += o.messages;
  return *this;
}

namespace {

double bytes_of(const View& v, const Plan& plan) {
  return v ? static_cast<double>(v.count) * static_cast<double>(size_of(plan.buffers[v.buffer].dtype)) : 0;
}

// Arithmetic per element of the row kernels: counted from their formulas, transcendental functions as one.
double vector_flops(const Op& op) {
  const double elements = static_cast<double>(op.a.m) * static_cast<double>(op.a.n);
  switch (op.kind) {
    case OpKind::residual_norm:
      return 9 * elements;
    case OpKind::residual_norm_backward:
      return 14 * elements;
    case OpKind::gelu:
      return 8 * elements;
    case OpKind::gelu_backward:
      return 13 * elements;
    case OpKind::residual_add:
    case OpKind::column_sum:
    case OpKind::period_sum:
      return elements;
    case OpKind::attention_merge:  // weights are a few a row and head
      return 3 * static_cast<double>(op.a.batch * op.a.tq * op.a.heads * op.a.d);
    case OpKind::adam:
      return 12 * elements;
    case OpKind::sgd:
      return 6 * elements;
    case OpKind::squared_sum:
      return 2 * elements;
    case OpKind::rms_norm:
      return 6 * elements;
    case OpKind::rms_norm_backward:
      return 11 * elements;
    case OpKind::swiglu:
      return 6 * elements;
    case OpKind::swiglu_backward:
      return 12 * elements;
    case OpKind::rotary:
    case OpKind::rotary_backward:
      return 3 * elements;
    case OpKind::dropout:
    case OpKind::dropout_backward:
      return 2 * elements;
    case OpKind::softmax:
      return 6 * elements;
    case OpKind::softmax_backward:
      return 5 * elements;
    case OpKind::embedding:
    case OpKind::embedding_backward:
    case OpKind::cross_entropy_max:
      return elements;
    case OpKind::cross_entropy_sums:
      return 3 * elements;
    case OpKind::cross_entropy:
      return 4 * elements;
    default:
      return 0;
  }
}

}  // namespace

Work work(const Op& op, const Plan& plan) {
  Work w;
  const Attrs& a = op.a;
  for (const View& v : op.reads) w.bytes_read += bytes_of(v, plan);
  for (const View& v : op.writes) w.bytes_written += bytes_of(v, plan);
  w.vector_flops = vector_flops(op);
  switch (op.kind) {
    case OpKind::gemm:
      w.flops = 2.0 * static_cast<double>(std::max<int64_t>(1, a.batch)) * static_cast<double>(a.m) *
                static_cast<double>(a.n) * static_cast<double>(a.k);
      if (a.batch > 0) {  // operands are strided views: count the elements that are touched
        const double size = static_cast<double>(size_of(plan.buffers[op.writes[0].buffer].dtype));
        w.bytes_read = size * static_cast<double>(a.batch * a.k * (a.m + a.n));
        w.bytes_written = size * static_cast<double>(a.batch * a.m * a.n);
      }
      if (a.accumulate) w.bytes_read += bytes_of(op.writes[0], plan);
      break;
    case OpKind::rotary:
    case OpKind::rotary_backward:  // values and gradients in place, strided
      w.bytes_read = w.bytes_written = static_cast<double>(a.m * a.n) *
                                       static_cast<double>(size_of(plan.buffers[op.writes[0].buffer].dtype));
      break;
    case OpKind::attention:
    case OpKind::attention_backward: {
      // two products forward, five backward (one of them recomputed), each 2 tq tk d; causal needs half of
      // them
      const double product = 2.0 * static_cast<double>(a.batch * a.heads) * static_cast<double>(a.tq) *
                             static_cast<double>(a.tk) * static_cast<double>(a.d) * (a.causal ? 0.5 : 1.0);
      w.flops = (op.kind == OpKind::attention ? 2 : 5) * product;
      // q, k and v are strided views: count the elements that are touched, not the span; workspace stays in
      // cache
      const double size = static_cast<double>(size_of(plan.buffers[op.writes[0].buffer].dtype));
      const double q = size * static_cast<double>(a.batch * a.tq * a.heads * a.d);
      const double kv = size * static_cast<double>(2 * a.batch * a.tk * a.kv_heads * a.d);
      const double lse = 4.0 * static_cast<double>(a.batch * a.heads * a.tq);
      const bool forward = op.kind == OpKind::attention;
      w.bytes_read = forward ? q + kv : 3 * q + kv + lse;
      w.bytes_written = forward ? q + lse : q + kv;
      break;
    }
    case OpKind::attention_merge:
      if (!a.first) w.bytes_read += bytes_of(op.writes[0], plan) + bytes_of(op.writes[1], plan);
      break;
    case OpKind::cast:
      if (a.accumulate) w.bytes_read += bytes_of(op.writes[0], plan);
      break;
    case OpKind::residual_norm_backward:
    case OpKind::rms_norm_backward:
      if (!a.first) w.bytes_read += bytes_of(op.writes[0], plan);
      break;
    case OpKind::embedding:  // of the table only the rows that are looked up
      w.bytes_read = static_cast<double>(a.m) * 4 + bytes_of(op.writes[0], plan) * (op.reads[2] ? 2 : 1);
      break;
    case OpKind::embedding_backward:  // added to gradients in place
      w.bytes_read = bytes_of(op.reads[0], plan) + bytes_of(op.reads[1], plan) +
                     4 * static_cast<double>(a.m) * static_cast<double>(a.n) * (op.writes[1] ? 2 : 1);
      w.bytes_written = 4 * static_cast<double>(a.m) * static_cast<double>(a.n) * (op.writes[1] ? 2 : 1);
      break;
    case OpKind::adam:  // parameter and moments are read as well as written
      for (int i = 0; i < 3; ++i) w.bytes_read += bytes_of(op.writes[i], plan);
      break;
    case OpKind::sgd:
      for (int i = 0; i < 2; ++i) w.bytes_read += bytes_of(op.writes[i], plan);
      break;
    case OpKind::copy: {  // strided views span more than is moved
      const double elements = static_cast<double>(a.extent[0] * a.extent[1] * a.extent[2] * a.n);
      w.bytes_read = w.bytes_written =
          elements * static_cast<double>(size_of(plan.buffers[op.writes[0].buffer].dtype));
      break;
    }
    case OpKind::all_reduce: {
      const double n = static_cast<double>(plan.groups[a.group].ranks.size());
      w.wire_bytes = 2 * (n - 1) / n * bytes_of(op.reads[0], plan);
      w.messages = 2 * (n - 1);
      w.vector_flops = (n - 1) / n * static_cast<double>(op.reads[0].count);
      break;
    }
    case OpKind::broadcast: {
      const double n = static_cast<double>(plan.groups[a.group].ranks.size());
      w.wire_bytes = n > 1 ? bytes_of(op.reads[0], plan) : 0;
      w.messages = std::ceil(std::log2(n));
      break;
    }
    case OpKind::all_gather:
    case OpKind::reduce_scatter: {
      const double n = static_cast<double>(plan.groups[a.group].ranks.size());
      const View& whole = op.kind == OpKind::all_gather ? op.writes[0] : op.reads[0];
      w.wire_bytes = (n - 1) / n * bytes_of(whole, plan);
      if (op.kind == OpKind::reduce_scatter)
        w.vector_flops = (n - 1) / n * static_cast<double>(whole.count);
      w.messages = n - 1;
      break;
    }
    case OpKind::all_to_all: {  // what stays here is no traffic
      const auto& ranks = plan.groups[a.group].ranks;
      const auto place = std::find(ranks.begin(), ranks.end(), plan.rank) - ranks.begin();
      const auto parts = send_parts(op, op.reads[0].count, static_cast<int>(ranks.size()));
      View leaving = op.reads[0];
      leaving.count -= parts.at(place);
      w.wire_bytes = bytes_of(leaving, plan);
      w.messages = static_cast<double>(ranks.size()) - 1;
      break;
    }
    case OpKind::exchange:
    case OpKind::send:
      w.wire_bytes = bytes_of(op.reads[0], plan);
      w.messages = 1;
      break;
    case OpKind::recv:  // its bytes are on the sender's account
      w.messages = 1;
      break;
    default:
      break;
  }
  return w;
}

Totals totals(const Plan& plan, int64_t micro_batch) {
  Totals t;
  std::vector<Work> per_routine(plan.routines.size());
  for (size_t r = 0; r < plan.routines.size(); ++r) {
    const Routine& routine = plan.routines[r];
    for (int i = routine.first; i < routine.first + routine.count; ++i)
      per_routine[r] += work(plan.ops[i], plan);
    if (routine.pass == Pass::forward)
      t.forward_flops += per_routine[r].flops / static_cast<double>(micro_batch);
  }
  for (const Invocation& i : plan.train) {
    t.step += per_routine[i.routine];
    t.ops += plan.routines[i.routine].count;
  }
  return t;
}

}  // namespace isobar
