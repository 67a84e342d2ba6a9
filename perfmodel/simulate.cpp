#include "perfmodel/simulate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "perfmodel/cost.h"

namespace isobar {
namespace {

// Loader workers as a producer of batches: batch n is begun when its slot is free and batch n-1 is done
// (several workers share the samples of a batch), and takes its CPU-seconds over the workers that get a core.
class Producer {
 public:
  Producer(double seconds_per_batch, int64_t slots) : seconds_(seconds_per_batch), slots_(slots) {}
  /// The consumer asks for the next batch at `now`; when it has it.
  double next(double now) {
    const size_t n = taken_.size();
    const double slot = n >= static_cast<size_t>(slots_) ? taken_[n - slots_] : 0;
    ready_ = std::max(ready_, slot) + seconds_;
    taken_.push_back(std::max(now, ready_));
    return taken_.back();
  }

 private:
  double seconds_;
  int64_t slots_;
  double ready_ = 0;
  std::vector<double> taken_;  // when each batch was taken
};

struct Running {
  int32_t instr = -1;
  double delay = 0;  // not slowed by anything: waiting for data
  double work = 0;
  double begin = 0;
};

class Replayer {
 public:
  Replayer(const Plan& plan, const Program& program, std::vector<double> cost, double slowdown,
           Producer* producer)
      : plan_(plan), program_(program), cost_(std::move(cost)), slowdown_(slowdown), producer_(producer) {
    for (size_t i = 0; i < program.instrs.size(); ++i)
      queues_[static_cast<size_t>(program.instrs[i].lane)].push_back(static_cast<int32_t>(i));
  }

  /// Runs one step from `now`; returns when its last op ended. Fills `spans` when given.
  double step(double now, std::vector<Span>* spans, double* data_wait) {
    const double start = now;
    std::vector<bool> done(program_.instrs.size(), false);
    std::array<size_t, kLanes> head{};
    std::array<Running, kLanes> running;
    size_t left = program_.instrs.size();
    while (left > 0) {
      begin_ready(now, done, head, running, data_wait);
      bool communicating = false;
      for (int l = 1; l < kLanes; ++l) communicating |= running[l].instr >= 0;
      double next = std::numeric_limits<double>::infinity();
      for (int l = 0; l < kLanes; ++l)
        if (running[l].instr >= 0)
          next = std::min(
              next, running[l].delay > 0 ? running[l].delay : running[l].work * stretch(l, communicating));
      if (!std::isfinite(next)) throw std::logic_error("the program waits for itself");
      now += next;
      for (int l = 0; l < kLanes; ++l) {
        Running& r = running[l];
        if (r.instr < 0) continue;
        double& part = r.delay > 0 ? r.delay : r.work;
        const double rest = part - (r.delay > 0 ? next : next / stretch(l, communicating));
        part = rest <= 1e-15 ? 0 : rest;  // below the clock's resolution
        if (r.delay > 0 || r.work > 0) continue;
        if (spans) spans->push_back(span(r, l, start, now));
        done[r.instr] = true;
        r.instr = -1;
        --left;
      }
    }
    return now;
  }

 private:
  double stretch(int lane, bool communicating) const {
    return lane == static_cast<int>(Lane::compute) && communicating ? 1 + slowdown_ : 1;
  }

  void begin_ready(double now, const std::vector<bool>& done, std::array<size_t, kLanes>& head,
                   std::array<Running, kLanes>& running, double* data_wait) {
    for (int l = 0; l < kLanes; ++l) {
      if (running[l].instr >= 0 || head[l] == queues_[l].size()) continue;
      const int32_t i = queues_[l][head[l]];
      const Instr& instr = program_.instrs[i];
      if (!std::all_of(instr.waits.begin(), instr.waits.end(), [&](int32_t w) { return done[w]; })) continue;
      Running& r = running[l];
      r = {.instr = i, .delay = 0, .work = cost_[i], .begin = now};
      if (producer_ && plan_.ops[instr.op].kind == OpKind::fetch) {
        r.delay = producer_->next(now) - now;
        if (data_wait) *data_wait += r.delay;
      }
      ++head[l];
    }
  }

  Span span(const Running& r, int lane, double start, double now) const {
    const Instr& instr = program_.instrs[r.instr];
    return {.rank = plan_.rank,
            .step = 0,
            .instr = r.instr,
            .op = instr.op,
            .micro = instr.micro,
            .lane = static_cast<Lane>(lane),
            .begin_ns = std::llround((r.begin - start) * 1e9),
            .end_ns = std::llround((now - start) * 1e9)};
  }

  const Plan& plan_;
  const Program& program_;
  std::vector<double> cost_;  // seconds by instr
  double slowdown_;
  Producer* producer_;
  std::array<std::vector<int32_t>, kLanes> queues_;
};

}  // namespace

Replay simulate(const RunSpec& spec, const Plan& plan, const Program& program, const Counts& k,
                const Conditions& where, double cache_share) {
  const Counts rate = rates(k, where);
  std::vector<double> by_op;
  by_op.reserve(plan.ops.size());
  for (const Op& op : plan.ops) by_op.push_back(seconds(count_op(op, plan, cache_share), rate));
  // Data: read by the compute thread inside its fetch ops, or by workers that take cores from compute.
  StepTerms reading;
  reading.where = where;
  reading.workers = spec.data.workers;
  reading.read = count_read(spec, spec.train.global_batch / spec.layout.dp);
  const ReadTime read = read_time(reading, k, rate);
  const auto batches = static_cast<double>(spec.micro_batches());

  std::vector<double> cost;
  cost.reserve(program.instrs.size());
  double compute = 0;
  for (const Instr& i : program.instrs) {
    cost.push_back(by_op[i.op]);
    if (!is_collective(plan.ops[i.op].kind)) compute += by_op[i.op];
  }
  for (size_t i = 0; i < cost.size(); ++i) {
    const OpKind kind = plan.ops[program.instrs[i].op].kind;
    if (!is_collective(kind)) cost[i] *= 1 + read.stolen / compute;
    if (kind == OpKind::fetch) cost[i] += read.serial / batches;
  }
  double tail = rate[index_of(Coef::step)];
  if (where.ranks > 1)
    tail += k[index_of(Coef::imbalance)] * std::log2(static_cast<double>(where.ranks)) * compute;

  const int64_t slots = std::max<int64_t>(1, spec.data.workers * spec.data.prefetch);
  Producer producer(read.supply / batches, slots);
  Replayer replayer(plan, program, std::move(cost), k[index_of(Coef::overlap_slowdown)],
                    spec.data.workers > 0 ? &producer : nullptr);
  // The first steps fill or drain the slots; then every step is like the one before.
  const int64_t warm = 2 + slots / spec.micro_batches(), steady = 4;
  double now = 0;
  for (int64_t s = 0; s < warm; ++s) now = replayer.step(now, nullptr, nullptr) + tail;
  Replay out;
  const double from = now;
  for (int64_t s = 0; s < steady; ++s) {
    const bool last = s + 1 == steady;
    const double begin = now;
    now = replayer.step(now, last ? &out.timeline.spans : nullptr, &out.data_wait_s) + tail;
    if (last)
      out.timeline.steps.push_back(
          {.rank = plan.rank, .step = 0, .begin_ns = 0, .end_ns = std::llround((now - begin) * 1e9)});
  }
  out.step_s = (now - from) / static_cast<double>(steady);
  out.data_wait_s /= static_cast<double>(steady);
  return out;
}

}  // namespace isobar
