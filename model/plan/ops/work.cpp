#include "model/plan/ops/work.h"

#include "model/plan/ops/op_table.h"
#include "model/plan/ops/operands.h"

namespace isobar::plan {

Work& Work::operator+=(const Work& o) {
  flops += o.flops;
  vector_flops += o.vector_flops;
  bytes_read += o.bytes_read;
  bytes_written += o.bytes_written;
  wire_bytes += o.wire_bytes;
  messages += o.messages;
  return *this;
}

double bytes_of(const View& v, const Plan& plan) {
  if (!v) return 0;
  const Buffer& b = plan.buffers[v.buffer];
  return b.filled * static_cast<double>(v.count) * static_cast<double>(size_of(b.dtype));
}

Work work(const Op& op, const Plan& plan) {
  const OpInfo& row = info_of(op.kind);
  Work w;
  for (const View& v : op.reads) w.bytes_read += bytes_of(v, plan);
  for (const View& v : op.writes) w.bytes_written += bytes_of(v, plan);
  w.bytes_written -= bytes_of(workspace_of(op), plan);  // it stays in cache
  const auto [rows, cols] = extent_of(op.attrs);
  w.vector_flops = row.vector_flops * static_cast<double>(rows) * static_cast<double>(cols);
  if (row.special) row.special(op, plan, w);
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

}  // namespace isobar::plan
