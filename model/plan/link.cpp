#include "model/plan/link.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

namespace isobar::plan {
namespace {

using LaneTable = std::array<int32_t, kLanes>;  // an instr index per lane, -1: none

void raise(LaneTable& table, int lane, int32_t instr) {
  table[lane] = std::max(table[lane], instr);
}

// The last writer and, per lane, the last reader of every byte of the arena, as a map of disjoint ranges.
class Accesses {
 public:
  explicit Accesses(int64_t bytes) { ranges_[0] = {bytes, fresh()}; }

  /// Records an access of [begin, end) by `instr` on `lane` and raises `waits` to what it must wait for.
  void access(int64_t begin, int64_t end, bool write, int32_t instr, int lane, LaneTable& waits) {
    const auto first = from(begin);
    auto it = first;
    for (; it != ranges_.end() && it->first < end; ++it) {
      if (it->second.first > end) cut(it, end);
      State& s = it->second.second;
      if (s.writer >= 0) raise(waits, s.writer_lane, s.writer);
      if (!write) {
        s.readers[lane] = instr;
        continue;
      }
      for (int l = 0; l < kLanes; ++l)
        if (s.readers[l] >= 0) raise(waits, l, s.readers[l]);
    }
    if (!write || first == it) return;
    ranges_.erase(std::next(first), it);  // the ranges have one state now, so they merge
    first->second = {end, fresh()};
    first->second.second.writer = instr;
    first->second.second.writer_lane = lane;
  }

 private:
  struct State {
    int32_t writer;
    int writer_lane;
    LaneTable readers;
  };
  static State fresh() {
    State s{-1, 0, {}};
    s.readers.fill(-1);
    return s;
  }
  using Ranges = std::map<int64_t, std::pair<int64_t, State>>;  // begin -> (end, state)
  // The range that begins there, cut from the one that holds it
  Ranges::iterator from(int64_t begin) {
    const auto it = std::prev(ranges_.upper_bound(begin));
    return it->first == begin || it->second.first <= begin ? it : cut(it, begin);
  }
  Ranges::iterator cut(Ranges::iterator it, int64_t at) {  // cuts in two; returns the second
    const auto second = ranges_.emplace_hint(std::next(it), at, it->second);
    it->second.first = at;
    return second;
  }
  Ranges ranges_;
};

}  // namespace

std::pair<int64_t, int64_t> address(const Plan& plan, const View& v, int32_t slot) {
  const Buffer& b = plan.buffers[v.buffer];
  const int64_t begin = b.offset + (slot - v.back) * b.slot_stride + v.offset * size_of(b.dtype);
  return {begin, begin + v.count * size_of(b.dtype)};
}

Program link(const Plan& plan, const std::vector<Invocation>& invocations, bool serial) {
  Program program;
  for (size_t n = 0; n < invocations.size(); ++n) {
    const Invocation& invocation = invocations[n];
    const Routine& routine = plan.routines[invocation.routine];
    for (int32_t o = routine.first; o < routine.first + routine.count; ++o) {
      const Op& op = plan.ops[o];
      program.instrs.push_back({o,
                                invocation.micro,
                                invocation.slot,
                                static_cast<int32_t>(n),
                                serial && op.kind != OpKind::send ? Lane::compute : op.lane,
                                {}});
    }
  }
  relink(plan, program);
  return program;
}

// Works by buffers, not addresses: an op that is left out does not care who reuses its memory.
Program needed_for(const Plan& plan, const Program& program, const std::vector<View>& wanted) {
  std::set<int32_t> buffers;
  const auto want = [&](const std::vector<View>& views) {
    for (const View& v : views)
      if (v) buffers.insert(v.buffer);
  };
  want(wanted);
  Program needed;
  for (auto instr = program.instrs.rbegin(); instr != program.instrs.rend(); ++instr) {
    const Op& op = plan.ops[instr->op];
    if (std::none_of(op.writes.begin(), op.writes.end(),
                     [&](const View& v) { return v && buffers.contains(v.buffer); }))
      continue;
    want(op.reads);
    needed.instrs.push_back(*instr);
  }
  std::reverse(needed.instrs.begin(), needed.instrs.end());
  relink(plan, needed);
  return needed;
}

void relink(const Plan& plan, Program& program) {
  Accesses accesses(plan.memory.arena + plan.memory.host);
  // Vector clocks: what each lane knows to be finished on the others, directly or through an op that it
  // waited for. A wait is stated only if nothing else implies it.
  std::array<LaneTable, kLanes> known;
  for (LaneTable& k : known) k.fill(-1);
  std::vector<LaneTable> knew;  // by instr: finished once it is
  for (Instr& instr : program.instrs) {
    const Op& op = plan.ops[instr.op];
    const auto index = static_cast<int32_t>(knew.size());
    const int lane = static_cast<int>(instr.lane);
    instr.waits.clear();
    LaneTable waits;
    waits.fill(-1);
    const auto touch = [&](const std::vector<View>& views, bool write) {
      for (const View& v : views) {
        if (!v || v.count == 0) continue;
        const auto [begin, end] = address(plan, v, instr.slot);
        accesses.access(begin, end, write, index, lane, waits);
      }
    };
    touch(op.reads, false);
    touch(op.writes, true);
    std::array<int, kLanes> latest_first;
    int news = 0;  // lanes that this one does not yet know to be done
    for (int l = 0; l < kLanes; ++l)
      if (l != lane && waits[l] > known[lane][l]) latest_first[news++] = l;
    std::sort(latest_first.begin(), latest_first.begin() + news,
              [&](int a, int b) { return waits[a] > waits[b]; });
    for (int i = 0; i < news; ++i) {
      const int other = latest_first[i];
      if (waits[other] <= known[lane][other]) continue;
      instr.waits.push_back(waits[other]);
      for (int l = 0; l < kLanes; ++l) raise(known[lane], l, knew[waits[other]][l]);
    }
    known[lane][lane] = index;
    knew.push_back(known[lane]);
  }
}

namespace {

std::vector<int64_t> parts(const Op& op, const std::vector<int64_t>& stated, int64_t whole, int ranks) {
  if (stated.empty() && whole % ranks == 0) return std::vector<int64_t>(ranks, whole / ranks);
  if (static_cast<int>(stated.size()) != ranks ||
      std::accumulate(stated.begin(), stated.end(), int64_t{0}) != whole)
    throw std::logic_error(op.path + ": " + std::to_string(whole) + " elements are not parts for " +
                           std::to_string(ranks) + " ranks");
  return stated;
}

}  // namespace

std::vector<int64_t> parts_of(const Op& op, int64_t whole, int ranks) {
  return op.kind == OpKind::reduce_scatter ? send_parts(op, whole, ranks) : receive_parts(op, whole, ranks);
}

std::vector<int64_t> send_parts(const Op& op, int64_t whole, int ranks) {
  return parts(op, op.as<TransferAttrs>().send, whole, ranks);
}

std::vector<int64_t> receive_parts(const Op& op, int64_t whole, int ranks) {
  return parts(op, op.as<TransferAttrs>().receive, whole, ranks);
}

}  // namespace isobar::plan
