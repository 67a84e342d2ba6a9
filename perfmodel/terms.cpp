#include "perfmodel/terms.h"

#include <algorithm>
#include <array>

namespace isobar {
namespace {

void add(Counts& to, const Counts& from) {
  for (size_t i = 0; i < kCoefs; ++i) to[i] += from[i];
}

// Operands that do not fit the rank's share of the cache come from memory: the larger, the surer.
double spilled(double bytes, double cache_share) {
  return bytes * bytes / (bytes + cache_share);
}

bool ends_with(const std::string& s, const std::string& tail) {
  return s.size() >= tail.size() && s.compare(s.size() - tail.size(), tail.size(), tail) == 0;
}

DType dtype_of(const Op& op, const Plan& plan) {
  for (const auto* views : {&op.reads, &op.writes})
    for (const View& v : *views)
      if (v) return plan.buffers[v.buffer].dtype;
  return DType::f32;
}

}  // namespace

Counts count_op(OpKind kind, DType dtype, const Work& work, double cache_share) {
  Counts n{};
  const bool half = dtype == DType::bf16 || dtype == DType::f16;
  const auto at = [&](Coef c) -> double& { return n[index_of(c)]; };
  if (is_collective(kind)) {
    at(Coef::message_host) = work.messages;
    at(Coef::wire_host) = work.wire_bytes;
    return n;
  }
  at(Coef::op) = 1;
  at(Coef::fork) = 1;
  const double bytes = work.bytes();
  const auto rows = [&](Coef c) {
    at(c) = bytes;
    at(Coef::vector) = work.vector_flops;
    at(Coef::spill) = spilled(bytes, cache_share);
  };
  switch (kind) {
    case OpKind::gemm:
      at(half ? Coef::gemm_bf16 : Coef::gemm_f32) = work.flops;
      at(Coef::gemm_bytes) = bytes;
      at(Coef::gemm_call) = 1;
      at(Coef::spill) = spilled(bytes, cache_share);
      break;
    case OpKind::attention:
      at(half ? Coef::attention_bf16 : Coef::attention_f32) = work.flops;
      break;
    case OpKind::attention_backward:
      at(half ? Coef::attention_backward_bf16 : Coef::attention_backward_f32) = work.flops;
      break;
    case OpKind::residual_norm:
    case OpKind::residual_norm_backward:
    case OpKind::residual_add:
    case OpKind::attention_merge:
      rows(Coef::norm);
      break;
    case OpKind::gelu:
    case OpKind::gelu_backward:
      rows(Coef::gelu);
      break;
    case OpKind::column_sum:
    case OpKind::period_sum:
      rows(Coef::reduction);
      break;
    case OpKind::fetch:
    case OpKind::patch_gather:
    case OpKind::zero:
    case OpKind::cast:
    case OpKind::copy:
      rows(Coef::copy);
      break;
    case OpKind::loss_sums:
    case OpKind::loss:
    case OpKind::loss_backward:
      rows(Coef::loss);
      break;
    case OpKind::squared_sum:
    case OpKind::loss_scale:
    case OpKind::adam:
    case OpKind::sgd:
      rows(Coef::optimizer);
      break;
    case OpKind::all_reduce:
    case OpKind::broadcast:
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
    case OpKind::all_to_all:
    case OpKind::exchange:
    case OpKind::send:
    case OpKind::recv:
      break;  // above
  }
  return n;
}

Counts count_op(const Op& op, const Plan& plan, double cache_share) {
  Work w = work(op, plan);
  // A receive keeps its rank's lane busy for as long as the transfer takes, though the bytes are the
  // sender's.
  if (op.kind == OpKind::recv)
    w.wire_bytes = static_cast<double>(op.writes[0].count * size_of(plan.buffers[op.writes[0].buffer].dtype));
  return count_op(op.kind, dtype_of(op, plan), w, cache_share);
}

Counts count_read(const RunSpec& spec, int64_t samples) {
  Counts n{};
  const NetSpec& net = spec.net;
  const double bytes = 4.0 * static_cast<double>(samples) *
                       static_cast<double>((net.in_channels + net.out_channels) * net.img_height) *
                       static_cast<double>(net.img_width);
  const Coef source = spec.data.train.empty()             ? Coef::read_noise
                      : ends_with(spec.data.train, ".nc") ? Coef::read_netcdf
                                                          : Coef::read_hdf5;
  n[index_of(source)] = bytes;
  n[index_of(Coef::read_sample)] = static_cast<double>(samples);
  return n;
}

StepTerms count_terms(const RunSpec& spec, const Plan& plan, const Program& program, const Conditions& where,
                      double cache_share) {
  StepTerms t;
  t.where = where;
  t.workers = spec.data.workers;
  t.samples = spec.train.global_batch;
  t.read = count_read(spec, spec.train.global_batch / spec.layout.dp);
  std::vector<Counts> counts;  // an op is counted once, however often it runs
  counts.reserve(plan.ops.size());
  for (const Op& op : plan.ops) counts.push_back(count_op(op, plan, cache_share));

  // A transfer beside compute waits for another stage, which this rank's list knows nothing of.
  const auto transfer = [&](const Instr& i) {
    const OpKind kind = plan.ops[i.op].kind;
    return (kind == OpKind::send || kind == OpKind::recv) && i.lane != Lane::compute;
  };
  // A collective is launched by the last compute op that it waits for (lanes are queues, so never before the
  // one ahead of it on its lane), wherever the list names it.
  std::vector<int> place(program.instrs.size(), -1);  // instr -> its place among the collectives, as launched
  std::vector<std::vector<int32_t>> launched_by(program.instrs.size());
  std::vector<int32_t> at_once;  // wait for nothing in this step
  std::array<int32_t, kLanes> after;
  after.fill(-1);
  std::vector<int32_t> begun(program.instrs.size(), -1);  // the compute op that launches a collective
  for (int32_t i = 0; i < static_cast<int32_t>(program.instrs.size()); ++i) {
    const Instr& instr = program.instrs[i];
    if (!is_collective(plan.ops[instr.op].kind) || transfer(instr)) continue;
    int32_t& last = after[static_cast<size_t>(instr.lane)];
    for (int32_t w : instr.waits)
      last = std::max(last, program.instrs[w].lane == Lane::compute ? w : begun[w]);
    if (instr.lane == Lane::compute) last = i;  // serial: launched in its turn, and waited for below
    begun[i] = last;
    (last < 0 ? at_once : launched_by[last]).push_back(i);
  }

  t.chunks.emplace_back();
  int collectives = 0;
  const auto launch = [&](const std::vector<int32_t>& instrs) {
    for (int32_t i : instrs) {
      const Instr& instr = program.instrs[i];
      Collective c{.lane = instr.lane, .counts = counts[instr.op]};
      for (int32_t w : instr.waits)
        if (place[w] >= 0) c.after.push_back(place[w]);
      place[i] = collectives++;
      t.chunks.back().collectives.push_back(std::move(c));
    }
  };
  launch(at_once);
  for (size_t i = 0; i < program.instrs.size(); ++i) {
    const Instr& instr = program.instrs[i];
    const Op& op = plan.ops[instr.op];
    add(t.total, counts[instr.op]);
    if (transfer(instr)) {
      add(t.transfers, counts[instr.op]);
      continue;
    }
    const Pass pass = plan.routines[plan.train[instr.invocation].routine].pass;
    if ((pass == Pass::forward || pass == Pass::backward) && op.lane != Lane::dp)
      add(t.micro, counts[instr.op]);
    if (is_collective(op.kind)) {
      if (instr.lane == Lane::compute) {  // serial: nothing runs beside it
        launch(launched_by[i]);
        t.chunks.emplace_back();
        t.chunks.back().join = {place[i]};
      }
      continue;
    }
    std::vector<int> join;
    for (int32_t w : instr.waits)
      if (place[w] >= 0) join.push_back(place[w]);
    if (!join.empty() || !t.chunks.back().collectives.empty()) {
      t.chunks.emplace_back();
      t.chunks.back().join = std::move(join);
    }
    add(t.chunks.back().compute, counts[instr.op]);
    launch(launched_by[i]);
    const Work w = work(op, plan);
    (dtype_of(op, plan) == DType::f32 ? t.flops_f32 : t.flops_bf16) += w.flops;
  }
  t.total[index_of(Coef::step)] += 1;
  return t;
}

}  // namespace isobar
