#include "perfmodel/step/simulate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

#include "perfmodel/step/cost.h"
#include "perfmodel/step/op_terms.h"
#include "perfmodel/step/reading.h"

namespace isobar::perf {
namespace {

// Loader workers as a producer of batches. Batch n begins when its slot is free and batch n-1 is done
// (workers share a batch's samples), and takes its CPU-seconds over the workers that get a core.
class Producer {
 public:
  Producer(double seconds_per_batch, int64_t slots) : seconds_(seconds_per_batch), slots_(slots) {}
  /// Time at which the consumer, asking at `now`, has the next batch.
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
  std::vector<double> taken_;  // time at which each batch was taken
};

// A host without loader workers beside its accelerator: it launches a step, then reads the batches of the
// next and sends each on, while the device computes.
class LaunchingReader {
 public:
  LaunchingReader(double read, double copy, int64_t batches) : read_(read), copy_(copy), batches_(batches) {}
  void launched(double now) {
    here_ = std::move(coming_);
    next_ = 0;
    coming_.clear();
    double copied = 0;
    free_ = std::max(free_, now);
    for (int64_t b = 0; b < batches_; ++b) {
      free_ += read_;
      copied = std::max(copied, free_) + copy_;
      coming_.push_back(copied);
    }
  }
  /// When the batch that is asked for at `now` is on the device; the first step's is at once.
  double next(double now) { return next_ < here_.size() ? std::max(now, here_[next_++]) : now; }
  /// The host has read the next step's batches.
  double free() const { return free_; }

 private:
  double read_, copy_;
  int64_t batches_;
  double free_ = 0;
  size_t next_ = 0;
  std::vector<double> here_, coming_;  // when each batch of this step and of the next is on the device
};

struct Running {
  int32_t instr = -1;
  bool waiting = false;   // for other replayed ranks to reach the same transfer
  bool for_data = false;  // the delay is that of a batch
  double delay = 0;       // independent of slowdown: waiting for data
  double work = 0;
  double begin = 0;
  double launched = 0;  // earliest begin
};

struct Rank {
  const plan::Plan* plan;
  const plan::Program* program;
  std::vector<double> cost;          // seconds by instr
  std::vector<Counts> counts;        // by op, in units
  double own = 0;                    // seconds of its compute ops, without reading
  std::vector<bool> stops;           // by instr: its own core makes this transfer
  double launch = 0;                 // seconds for the host to launch an op, one after the other
  std::optional<Producer> producer;  // loader threads, if this rank's read
  std::optional<LaunchingReader> launcher;
  std::vector<int32_t> meeting;  // by group of the plan: index among meetings; -1: no other rank is replayed
  std::array<std::vector<int32_t>, plan::kLanes> queues;
  // State of the replayed step.
  std::vector<bool> done;
  std::array<size_t, plan::kLanes> head;
  std::array<Running, plan::kLanes> running;
  RankTimes spent;  // of all steps so far

  const plan::Op& op(int32_t instr) const { return plan->ops[program->instrs[instr].op]; }
  bool communicating() const {
    for (int l = 1; l < plan::kLanes; ++l)
      if (running[l].instr >= 0 && !running[l].waiting) return true;
    return false;
  }
  /// The lane whose transfer the computing core makes; -1: none.
  int stopped_by() const {
    for (int l = 1; l < plan::kLanes; ++l)
      if (running[l].instr >= 0 && !running[l].waiting && stops[static_cast<size_t>(running[l].instr)])
        return l;
    return -1;
  }
  bool standing_still() const { return stopped_by() >= 0; }
  /// Instr that the idle compute lane waits for; -1: it waits for other ranks.
  int32_t awaited() const {
    if (head[0] < queues[0].size()) {
      for (const int32_t w : program->instrs[queues[0][head[0]]].waits)
        if (!done[w]) return w;
      return -1;
    }
    for (int l = 1; l < plan::kLanes; ++l)
      if (head[l] > 0 && running[l].instr >= 0) return running[l].instr;
    return -1;
  }
};

class Replayer {
 public:
  Replayer(std::vector<Rank> ranks, double slowdown) : ranks_(std::move(ranks)), slowdown_(slowdown) {
    std::set<int> replayed;
    for (const Rank& r : ranks_) replayed.insert(r.plan->rank);
    std::map<std::pair<std::string, std::vector<int>>, int32_t> known;
    for (Rank& r : ranks_) {
      for (size_t i = 0; i < r.program->instrs.size(); ++i)
        r.queues[static_cast<size_t>(r.program->instrs[i].lane)].push_back(static_cast<int32_t>(i));
      for (const plan::Group& g : r.plan->groups) {
        const auto here = static_cast<size_t>(std::count_if(
            g.ranks.begin(), g.ranks.end(), [&](int rank) { return replayed.count(rank) > 0; }));
        if (here < 2) {
          r.meeting.push_back(-1);
          continue;
        }
        const auto [at, fresh] = known.try_emplace({g.name, g.ranks}, static_cast<int32_t>(meetings_.size()));
        if (fresh) meetings_.push_back({here, {}});
        r.meeting.push_back(at->second);
      }
    }
  }

  std::vector<Rank>& ranks() { return ranks_; }

  /// Runs one step from `now`; returns the end of its last op. Fills `spans` if given.
  double step(double now, std::vector<trace::Span>* spans) {
    const double start = now;
    started_ = now;
    size_t left = 0;
    for (Rank& r : ranks_) {
      r.done.assign(r.program->instrs.size(), false);
      r.head.fill(0);
      r.running.fill({});
      left += r.done.size();
      if (r.launcher) r.launcher->launched(now);
    }
    while (left > 0) {
      for (Rank& r : ranks_) begin_ready(r, now);
      double next = std::numeric_limits<double>::infinity();
      for (const Rank& r : ranks_) {
        const bool communicating = r.communicating(), still = r.standing_still();
        for (const Running& x : r.running)
          if (x.instr >= 0 && !x.waiting && !stopped(r, x, still))
            next = std::min(next, x.delay > 0 ? x.delay : x.work * stretch(r, x, communicating));
      }
      if (!std::isfinite(next)) throw std::logic_error("the program waits for itself");
      now += next;
      for (Rank& r : ranks_) account(r, next);
      for (Rank& r : ranks_) left -= advance(r, next, start, now, spans);
    }
    double end = now;  // a launcher comes to the next step when it has read
    for (const Rank& r : ranks_)
      if (r.launcher) end = std::max(end, r.launcher->free());
    for (Rank& r : ranks_) r.spent.data_wait += end - now;
    return end;
  }

 private:
  struct Meeting {
    size_t ranks;
    std::vector<Running*> arrived;
  };

  static bool stopped(const Rank& r, const Running& x, bool still) {
    return still && !plan::is_collective(r.op(x.instr).kind);
  }
  double stretch(const Rank& r, const Running& x, bool communicating) const {
    return communicating && !plan::is_collective(r.op(x.instr).kind) ? 1 + slowdown_ : 1;
  }

  // Adds what each lane does in the next `dt` seconds.
  void account(Rank& r, double dt) const {
    RankTimes& spent = r.spent;
    for (int l = 1; l < plan::kLanes; ++l)
      if (r.running[l].instr >= 0 && !r.running[l].waiting && r.running[l].delay <= 0) spent.lanes[l] += dt;
    const Running& x = r.running[0];
    if (x.instr < 0) return account_wait(r, dt);
    const plan::Op& op = r.op(x.instr);
    if (x.waiting) {
      spent.bubble += dt;
    } else if (x.delay > 0) {
      (x.for_data ? spent.data_wait : spent.host) += dt;
    } else if (plan::is_collective(op.kind)) {  // serial
      spent.lanes[static_cast<size_t>(op.lane)] += dt;
      spent.exposed[static_cast<size_t>(op.lane)] += dt;
    } else if (const int by = r.stopped_by(); by >= 0) {
      spent.exposed[static_cast<size_t>(by)] += dt;
    } else {
      const double work = dt / stretch(r, x, r.communicating());
      spent.compute += work;
      spent.slowdown += dt - work;
    }
  }

  // Sends and receives are waits for other stages.
  static void account_wait(Rank& r, double dt) {
    const int32_t awaited = r.awaited();
    if (awaited < 0) {
      r.spent.bubble += dt;
      return;
    }
    const plan::Op& op = r.op(awaited);
    const auto lane = static_cast<size_t>(op.lane);
    if (op.kind == plan::OpKind::fetch)
      r.spent.data_wait += dt;
    else if (op.kind == plan::OpKind::send || op.kind == plan::OpKind::recv || r.running[lane].waiting)
      r.spent.bubble += dt;
    else
      r.spent.exposed[lane] += dt;
  }

  size_t advance(Rank& r, double next, double start, double now, std::vector<trace::Span>* spans) const {
    const bool communicating = r.communicating(), still = r.standing_still();
    size_t ended = 0;
    for (int l = 0; l < plan::kLanes; ++l) {
      Running& x = r.running[l];
      if (x.instr < 0 || x.waiting || stopped(r, x, still)) continue;
      double& part = x.delay > 0 ? x.delay : x.work;
      const double rest = part - (x.delay > 0 ? next : next / stretch(r, x, communicating));
      part = rest <= 1e-15 ? 0 : rest;  // below the clock's resolution
      if (x.delay > 0 || x.work > 0) continue;
      if (spans) spans->push_back(span(r, x, l, start, now));
      r.done[x.instr] = true;
      x.instr = -1;
      ++ended;
    }
    return ended;
  }

  void begin_ready(Rank& r, double now) {
    for (int l = 0; l < plan::kLanes; ++l) {
      if (r.running[l].instr >= 0 || r.head[l] == r.queues[l].size()) continue;
      const int32_t i = r.queues[l][r.head[l]];
      const plan::Instr& instr = r.program->instrs[i];
      if (!std::all_of(instr.waits.begin(), instr.waits.end(), [&](int32_t w) { return r.done[w]; }))
        continue;
      Running& x = r.running[l];
      x = {.instr = i, .work = r.cost[i], .begin = now};
      x.launched = started_ + (i + 1) * r.launch;
      x.delay = std::max(0.0, x.launched - now);
      const plan::Op& op = r.op(i);
      if ((r.producer || r.launcher) && op.kind == plan::OpKind::fetch) {
        const double batch = r.producer ? r.producer->next(now) - now : r.launcher->next(now) - now;
        x.for_data = batch >= x.delay;
        x.delay = std::max(x.delay, batch);
      }
      if (plan::is_collective(op.kind) && r.meeting[op.as<plan::TransferAttrs>().group] >= 0)
        meet(meetings_[r.meeting[op.as<plan::TransferAttrs>().group]], x, now);
      ++r.head[l];
    }
  }

  // The last to arrive starts all; together they take as long as the longest.
  static void meet(Meeting& m, Running& x, double now) {
    x.waiting = true;
    m.arrived.push_back(&x);
    if (m.arrived.size() < m.ranks) return;
    double work = 0;
    for (const Running* other : m.arrived) work = std::max(work, other->work);
    for (Running* other : m.arrived) {
      other->work = work;
      other->delay = std::max(0.0, other->launched - now);
      other->waiting = false;
    }
    m.arrived.clear();
  }

  // From the time at which the rank reached the op, as the engine measures.
  static trace::Span span(const Rank& r, const Running& x, int lane, double start, double now) {
    const plan::Instr& instr = r.program->instrs[x.instr];
    return {.rank = r.plan->rank,
            .step = 0,
            .instr = x.instr,
            .op = instr.op,
            .micro = instr.micro,
            .lane = static_cast<plan::Lane>(lane),
            .begin_ns = std::llround((x.begin - start) * 1e9),
            .end_ns = std::llround((now - start) * 1e9)};
  }

  std::vector<Rank> ranks_;
  std::vector<Meeting> meetings_;
  double slowdown_;
  double started_ = 0;  // begin of the step, with host and device in sync
};

bool computes(const plan::Plan& plan, const plan::Instr& i) {
  return i.lane == plan::Lane::compute && !plan::is_collective(plan.ops[i.op].kind);
}

// Data is read by the compute thread inside fetch ops, or by workers that take cores from compute, on all
// stages.
void add_reading(Rank& r, const RunSpec& spec, const ReadTime& read) {
  const auto batches = static_cast<double>(spec.micro_batches());
  bool fetches = false;
  for (size_t i = 0; i < r.cost.size(); ++i) {
    const plan::OpKind kind = r.op(static_cast<int32_t>(i)).kind;
    fetches |= kind == plan::OpKind::fetch;
    if (!plan::is_collective(kind)) r.cost[i] *= 1 + read.stolen / r.own;
    if (kind == plan::OpKind::fetch) r.cost[i] += read.serial / batches;
  }
  if (read.by_launcher && fetches)
    r.launcher.emplace(read.supply / batches, read.landing / batches, spec.micro_batches());
  else if (read.supply > 0 && fetches)
    r.producer.emplace(read.supply / batches, std::max<int64_t>(1, spec.data.workers * spec.data.prefetch));
  r.spent.stolen = read.stolen;
  r.spent.reading = fetches ? read.serial : 0;
}

Rank priced(const plan::Plan& plan, const plan::Program& program, const Counts& rate, const Conditions& where,
            double cache_share) {
  Rank out{.plan = &plan, .program = &program};
  std::vector<double> by_op;
  std::vector<bool> stops;  // by op
  by_op.reserve(plan.ops.size());
  for (const plan::Op& op : plan.ops) {
    Counts& n = out.counts.emplace_back();
    by_op.push_back(op_seconds(op, plan, rate, where, cache_share, &n));
    stops.push_back(plan::is_collective(op.kind) && where.stops_compute(n));
  }
  for (const plan::Instr& i : program.instrs) {
    out.stops.push_back(stops[static_cast<size_t>(i.op)]);
    out.cost.push_back(by_op[i.op]);
    if (computes(plan, i)) out.own += by_op[i.op];
  }
  if (where.processors > 0) out.launch = rate[index_of(Coef::host_op)];
  return out;
}

// The rank's times of one of `steps` steps, with its counts and the seconds of each.
RankTimes times_of(const Rank& r, double steps, const Counts& rate, double imbalance) {
  RankTimes t = r.spent;
  for (double* v : {&t.compute, &t.slowdown, &t.bubble, &t.host, &t.data_wait}) *v /= steps;
  for (LaneSeconds* lanes : {&t.exposed, &t.lanes})
    for (double& v : *lanes) v /= steps;
  t.compute -= t.reading + t.stolen;
  const double clock = r.own > 0 ? t.compute / r.own : 1;  // its rounding
  for (const plan::Instr& i : r.program->instrs) {
    const Counts& n = r.counts[static_cast<size_t>(i.op)];
    const bool priced = computes(*r.plan, i);
    for (size_t c = 0; c < kCoefs; ++c) {
      t.counts[c] += n[c];
      if (priced) t.parts[c] += clock * n[c] * rate[c];
    }
  }
  t.imbalance = imbalance;
  t.step = t.parts[index_of(Coef::step)] = rate[index_of(Coef::step)];
  t.counts[index_of(Coef::step)] += 1;
  return t;
}

Replay replay(const RunSpec& spec,
              const std::vector<std::pair<const plan::Plan*, const plan::Program*>>& programs,
              const Counts& k, const Conditions& where, double cache_share) {
  const Counts rate = rates(k, where);
  const ReadTime read = read_time(reading_of(spec, where), k, rate);
  std::vector<Rank> ranks;
  double compute = 0;  // of the busiest rank
  bool loads = false;
  for (const auto& [plan, program] : programs) {
    ranks.push_back(priced(*plan, *program, rate, where, cache_share));
    compute = std::max(compute, ranks.back().own);
    add_reading(ranks.back(), spec, read);
    loads |= ranks.back().producer || ranks.back().launcher;
  }
  const double imbalance = where.waits(k) * compute, tail = rate[index_of(Coef::step)] + imbalance;
  Replayer replayer(std::move(ranks), k[index_of(Coef::overlap_slowdown)]);
  // The first steps fill or drain the loader's slots; later ones are equal, as all are without a loader.
  const int64_t slots = std::max<int64_t>(1, spec.data.workers * spec.data.prefetch);
  const int64_t warm = loads ? 2 + slots / spec.micro_batches() : 0, steady = loads ? 4 : 1;
  double now = 0;
  for (int64_t s = 0; s < warm; ++s) now = replayer.step(now, nullptr) + tail;
  for (Rank& r : replayer.ranks()) r.spent = {.reading = r.spent.reading, .stolen = r.spent.stolen};
  Replay out;
  const double from = now;
  for (int64_t s = 0; s < steady; ++s) {
    const bool last = s + 1 == steady;
    const double begin = now;
    now = replayer.step(now, last ? &out.timeline.spans : nullptr) + tail;
    if (!last) continue;
    for (const auto& [plan, program] : programs)
      out.timeline.steps.push_back(
          {.rank = plan->rank, .step = 0, .begin_ns = 0, .end_ns = std::llround((now - begin) * 1e9)});
  }
  out.step_s = (now - from) / static_cast<double>(steady);
  const Rank* busiest = &replayer.ranks()[0];
  for (const Rank& r : replayer.ranks()) {
    out.data_wait_s += r.spent.data_wait / static_cast<double>(steady);
    if (r.own > busiest->own) busiest = &r;
  }
  out.busiest = times_of(*busiest, static_cast<double>(steady), rate, imbalance);
  return out;
}

}  // namespace

Replay simulate(const RunSpec& spec, const std::vector<nets::StageProgram>& stages, const Counts& k,
                const Conditions& where, double cache_share) {
  std::vector<std::pair<const plan::Plan*, const plan::Program*>> programs;
  programs.reserve(stages.size());
  for (const nets::StageProgram& s : stages) programs.emplace_back(&s.plan, &s.program);
  return replay(spec, programs, k, where, cache_share);
}

Replay simulate(const RunSpec& spec, const plan::Plan& plan, const plan::Program& program, const Counts& k,
                const Conditions& where, double cache_share) {
  return replay(spec, {{&plan, &program}}, k, where, cache_share);
}

}  // namespace isobar::perf
