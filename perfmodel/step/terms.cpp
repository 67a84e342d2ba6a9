#include "perfmodel/step/terms.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace isobar {
namespace {

void add(Counts& to, const Counts& from) {
  for (size_t i = 0; i < kCoefs; ++i) to[i] += from[i];
}

/// By the name's ending; of several names, separated by commas, the first.
Coef format_of(const DataSpec& data) {
  if (data.train.empty()) return Coef::read_noise;
  std::string path = data.train.substr(0, data.train.find(','));
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const auto is = [&](std::initializer_list<const char*> endings) {
    return std::any_of(endings.begin(), endings.end(), [&](const char* e) { return path.ends_with(e); });
  };
  return is({".nc", ".nc4"}) ? Coef::read_netcdf : is({".zarr", ".zip"}) ? Coef::read_zarr : Coef::read_hdf5;
}

}  // namespace

double read_bytes(const RunSpec& spec, int64_t samples) {
  int64_t numbers = spec.net.sample_numbers();
  if (const Images* i = spec.net.images())  // a target for every roll-out step in the loss
    numbers +=
        ((spec.learnt_steps() - 1) * i->out_channels + (spec.train.rollout - 1) * spec.known_channels()) *
        i->pixels();
  return 4.0 * static_cast<double>(samples) * static_cast<double>(numbers);
}

Counts count_read(const RunSpec& spec, int64_t samples) {
  Counts n{};
  const double bytes = read_bytes(spec, samples);
  if (spec.data.workers > 0) n[index_of(Coef::read_handover)] = static_cast<double>(spec.micro_batches());
  if (!spec.net.images()) {  // rows of a table, of tokens or of noise, in memory
    n[index_of(Coef::read_table)] = bytes;
    n[index_of(Coef::read_row)] = static_cast<double>(samples);
    return n;
  }
  const Coef source = format_of(spec.data);
  n[index_of(source)] = bytes;
  if (source == Coef::read_zarr) n[index_of(Coef::read_decode)] = bytes;
  n[index_of(Coef::read_sample)] = static_cast<double>(samples);
  return n;
}

std::string read_kind(const RunSpec& spec) {
  const Coef format = format_of(spec.data);
  const std::string name =
      info_of(format == Coef::read_zarr ? Coef::read_decode : format).name;  // "read.hdf5"
  return "read_" + name.substr(5);
}

StepTerms grown(StepTerms few, StepTerms more, double rounds) {
  StepTerms t = few;
  t.chunks.clear();
  for (Counts StepTerms::*counts :
       {&StepTerms::total, &StepTerms::micro, &StepTerms::transfers, &StepTerms::bubble, &StepTerms::read})
    for (size_t i = 0; i < kCoefs; ++i) (t.*counts)[i] += rounds * ((more.*counts)[i] - (few.*counts)[i]);
  t.flops_f32 += rounds * (more.flops_f32 - few.flops_f32);
  t.flops_bf16 += rounds * (more.flops_bf16 - few.flops_bf16);
  t.samples += static_cast<int64_t>(rounds) * (more.samples - few.samples);
  t.growth = std::make_shared<const Growth>(Growth{std::move(few), std::move(more), rounds});
  return t;
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
  for (const Op& op : plan.ops) counts.push_back(count_op(op, plan, cache_share, where));

  // A transfer on its own lane waits for another stage, which this rank's list does not contain.
  const auto transfer = [&](const Instr& i) {
    const OpKind kind = plan.ops[i.op].kind;
    return (kind == OpKind::send || kind == OpKind::recv) && i.lane != Lane::compute;
  };
  // A collective is launched by the last compute op that it waits for (and not before its predecessor on its
  // lane), wherever the list has it.
  std::vector<int> place(program.instrs.size(), -1);  // instr -> its index among the collectives, in launch
                                                      // order
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
    if (instr.lane == Lane::compute) last = i;  // serial: launched in order, and waited for below
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
