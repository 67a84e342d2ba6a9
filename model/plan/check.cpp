// Checks that the plans of all ranks can run together, which no rank can see alone.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "model/plan/link.h"
#include "model/plan/ops/op_table.h"
#include "model/plan/ops/operands.h"

namespace isobar::plan {
namespace {

using GroupKey = std::pair<std::string, std::vector<int>>;  // identifies a group across ranks

GroupKey key_of(const Group& g) {
  return {g.name, g.ranks};
}

std::string rank_text(const Plan& plan) {
  return "rank " + std::to_string(plan.rank);
}

void check_ops(const Plan& plan) {
  for (const Op& op : plan.ops) {
    check_operands(op);
    for (const auto* views : {&op.reads, &op.writes})
      for (const View& v : *views)
        if (v && (v.offset < 0 || v.offset + v.count > plan.buffers.at(v.buffer).count))
          throw std::logic_error(rank_text(plan) + ": " + op.path + " reaches outside of " +
                                 plan.buffers[v.buffer].name);
  }
}

// One rank's use of a group: the fields on which its members must agree.
struct Call {
  OpKind kind;  // send also stands for its receive
  DType dtype;
  int64_t count;               // elements of the whole
  std::vector<int64_t> parts;  // elements of each rank
  std::string path;
  // all_to_all, exchange: elements for and from each member, and this rank's index among them
  std::vector<int64_t> send, receive;
  size_t place = 0;
  bool largest = false;
  bool matches(const Call& o) const {
    return kind == o.kind && dtype == o.dtype && count == o.count && parts == o.parts &&
           largest == o.largest && send.size() == o.send.size() &&
           (send.empty() || (send[o.place] == o.receive[place] && o.send[place] == receive[o.place]));
  }
};

// Also checks the op against its own group.
Call call_of(const Plan& plan, const Op& op) {
  const Group& group = plan.groups.at(op.as<TransferAttrs>().group);
  const auto refuse = [&](const std::string& why) {
    throw std::logic_error(rank_text(plan) + ": " + op.path + " " + why);
  };
  const auto place = std::find(group.ranks.begin(), group.ranks.end(), plan.rank) - group.ranks.begin();
  const int ranks = static_cast<int>(group.ranks.size());
  if (place == ranks) refuse("uses a group that its rank is not in");
  const View& whole = whole_of(op);
  Call call{op.kind, plan.buffers[whole.buffer].dtype, whole.count, {}, op.path};
  switch (op.kind) {
    case OpKind::send:
    case OpKind::recv:
      if (ranks != 2) refuse("has a group of " + std::to_string(ranks) + " ranks, not sender and receiver");
      if (place != (op.kind == OpKind::send ? 0 : 1)) refuse("stands on the other side of its transfer");
      call.kind = OpKind::send;
      break;
    case OpKind::all_gather:
    case OpKind::reduce_scatter: {
      call.parts = parts_of(op, whole.count, ranks);
      const View& part = op.kind == OpKind::all_gather ? in<OpKind::all_gather>(op, "part")
                                                       : out<OpKind::reduce_scatter>(op, "part");
      if (part.count != call.parts[place]) refuse("has a part of another size than its group says");
      if (plan.buffers[part.buffer].dtype != call.dtype) refuse("has a part of another type than the whole");
      int64_t begin = whole.offset;
      for (int r = 0; r < place; ++r) begin += call.parts[r];
      const bool overlap = part.buffer == whole.buffer && part.offset < whole.offset + whole.count &&
                           whole.offset < part.offset + part.count;
      if (overlap && part.offset != begin) refuse("overlaps itself at another place than its part's");
      break;
    }
    case OpKind::all_to_all:
    case OpKind::exchange: {
      const View& received = out<OpKind::all_to_all, OpKind::exchange>(op, "y");
      if (plan.buffers[received.buffer].dtype != call.dtype) refuse("writes another type than it reads");
      if (received.buffer == whole.buffer && received.offset < whole.offset + whole.count &&
          whole.offset < received.offset + received.count)
        refuse("overwrites what it still sends");
      call.place = static_cast<size_t>(place);
      if (op.kind == OpKind::all_to_all && in<OpKind::all_to_all>(op, "offsets")) {
        call.parts = {op.as<TransferAttrs>().width, op.as<TransferAttrs>().back ? 1 : 0};
      } else if (op.kind == OpKind::all_to_all) {
        call.send = send_parts(op, whole.count, ranks);
        call.receive = receive_parts(op, received.count, ranks);
      } else {
        const auto& sizes = op.as<TransferAttrs>();
        if (sizes.send != std::vector<int64_t>{whole.count} ||
            sizes.receive != std::vector<int64_t>{received.count})
          refuse("has operands of other sizes than it says");
        call.send.assign(ranks, 0);
        call.receive.assign(ranks, 0);
        call.send[(place + 1) % ranks] = whole.count;
        call.receive[(place + ranks - 1) % ranks] = received.count;
      }
      call.count = 0;  // the whole differs from rank to rank
      break;
    }
    default:
      if (const View& v = out<OpKind::all_reduce, OpKind::broadcast>(op, "x");
          v.buffer != whole.buffer || v.offset != whole.offset || v.count != whole.count)
        refuse("works in place, and writes another view than it reads");
      if (op.as<TransferAttrs>().largest && (op.kind != OpKind::all_reduce || call.dtype != DType::f32))
        refuse("has the maximum of what is no all_reduce of f32");
      call.largest = op.as<TransferAttrs>().largest;
  }
  return call;
}

void check_calls(const std::vector<Plan>& plans) {
  std::map<GroupKey, std::vector<std::vector<Call>>> calls;  // per member, in order
  for (const Plan& plan : plans) {
    std::map<GroupKey, std::vector<Call>> own;
    std::map<GroupKey, const Op*> first;
    std::vector<const std::vector<Invocation>*> lists = {&plan.init, &plan.train, &plan.eval, &plan.exchange};
    for (const std::vector<Invocation>& shorter : plan.shorter) lists.push_back(&shorter);
    for (const auto* list : lists)
      for (const Invocation& i : *list)
        for (int32_t o = plan.routines[i.routine].first;
             o < plan.routines[i.routine].first + plan.routines[i.routine].count; ++o) {
          const Op& op = plan.ops[o];
          if (!is_collective(op.kind)) continue;
          const Call call = call_of(plan, op);
          const GroupKey key = key_of(plan.groups[op.as<TransferAttrs>().group]);
          const Op& before = *first.try_emplace(key, &op).first->second;
          if (before.lane != op.lane)
            throw std::logic_error(rank_text(plan) + ": " + op.path + " on lane " + name_of(op.lane) +
                                   " uses the same group as " + before.path + " on lane " +
                                   name_of(before.lane));
          own[key].push_back(call);
        }
    for (auto& [key, list] : own) calls[key].push_back(std::move(list));
  }
  for (const auto& [key, members] : calls) {
    const auto& [name, ranks] = key;
    if (members.size() != ranks.size())
      throw std::logic_error("only " + std::to_string(members.size()) + " of " +
                             std::to_string(ranks.size()) + " ranks of group " + name + " use it");
    for (const auto& list : members) {
      if (list.size() != members[0].size())
        throw std::logic_error("ranks of group " + name + " disagree on the number of calls");
      for (size_t i = 0; i < list.size(); ++i)
        for (const auto& other : members) {
          if (i < other.size() && !list[i].matches(other[i]))
            throw std::logic_error("call " + std::to_string(i) + " of group " + name +
                                   " differs: " + list[i].path + " and " + other[i].path);
          if (list[i].send.empty()) break;  // the first member stands for all unless sizes are per pair
        }
    }
  }
}

// Runs all ranks' programs with the least that MPI promises: a transfer ends only once all its ranks have
// reached it. Small messages often end earlier, which hides deadlocks until sizes grow.
class Rendezvous {
 public:
  Rendezvous(const std::vector<Plan>& plans, std::vector<Program> programs)
      : plans_(plans), programs_(std::move(programs)), ranks_(plans.size()) {
    for (size_t r = 0; r < plans.size(); ++r) {
      ranks_[r].done.fill(-1);
      const auto& instrs = programs_[r].instrs;
      for (size_t i = 0; i < instrs.size(); ++i)
        ranks_[r].queue[lane_of(instrs[i])].push_back(static_cast<int32_t>(i));
      for (const Group& g : plans[r].groups) ranks_[r].groups.push_back(&arrived_[key_of(g)]);
    }
  }

  /// Throws with the op at which each stuck rank waits, if any.
  void run(const std::string& what) {
    std::set<size_t> movable;
    for (size_t r = 0; r < plans_.size(); ++r) movable.insert(r);
    while (!movable.empty()) {
      const size_t r = *movable.begin();
      movable.erase(movable.begin());
      while (move(r, movable)) {
      }
    }
    std::string stuck;
    for (size_t r = 0; r < plans_.size(); ++r)
      for (int lane = 0; lane < kLanes; ++lane) {
        if (!ranks_[r].waiting[lane]) continue;
        const Instr& instr = programs_[r].instrs[head(r, lane)];
        stuck += (stuck.empty() ? "" : "; ") + rank_text(plans_[r]) + " at " + plans_[r].ops[instr.op].path +
                 " (" + name_of(plans_[r].ops[instr.op].kind) + ", lane " + name_of(instr.lane) +
                 ", micro-batch " + std::to_string(instr.micro) + ")";
      }
    if (!stuck.empty()) throw std::logic_error("deadlock in " + what + ": " + stuck);
  }

 private:
  struct Rank {
    std::array<std::vector<int32_t>, kLanes> queue;            // instrs of each lane
    std::array<size_t, kLanes> next{};                         // position in queue
    std::array<int32_t, kLanes> done;                          // highest finished instr
    std::array<bool, kLanes> waiting{};                        // the next op is a transfer that this rank has
                                                               // reached
    std::vector<std::vector<std::pair<size_t, int>>*> groups;  // by index: rank and lane of those waiting
                                                               // there
  };

  static int lane_of(const Instr& i) { return static_cast<int>(i.lane); }
  int32_t head(size_t r, int lane) const { return ranks_[r].queue[lane][ranks_[r].next[lane]]; }

  void finish(size_t r, int lane) {
    Rank& rank = ranks_[r];
    rank.done[lane] = head(r, lane);
    rank.waiting[lane] = false;
    ++rank.next[lane];
  }

  // Advances every lane until it must wait; true if any op finished on this rank.
  bool move(size_t r, std::set<size_t>& movable) {
    Rank& rank = ranks_[r];
    bool moved = false;
    for (int lane = 0; lane < kLanes; ++lane)
      while (!rank.waiting[lane] && rank.next[lane] < rank.queue[lane].size()) {
        const Instr& instr = programs_[r].instrs[head(r, lane)];
        if (!std::all_of(instr.waits.begin(), instr.waits.end(),
                         [&](int32_t w) { return rank.done[lane_of(programs_[r].instrs[w])] >= w; }))
          break;
        const Op& op = plans_[r].ops[instr.op];
        if (!is_collective(op.kind)) {
          finish(r, lane);
          moved = true;
          continue;
        }
        auto& arrived = *rank.groups[op.as<TransferAttrs>().group];
        arrived.emplace_back(r, lane);
        rank.waiting[lane] = true;
        if (arrived.size() < plans_[r].groups[op.as<TransferAttrs>().group].ranks.size()) break;
        for (const auto& [member, its_lane] : arrived) {
          finish(member, its_lane);
          if (member != r) movable.insert(member);
        }
        arrived.clear();
        moved = true;
      }
    return moved;
  }

  const std::vector<Plan>& plans_;
  std::vector<Program> programs_;
  std::vector<Rank> ranks_;
  std::map<GroupKey, std::vector<std::pair<size_t, int>>> arrived_;
};

}  // namespace

void check(const std::vector<Plan>& plans) {
  for (const Plan& plan : plans) check_ops(plan);
  check_calls(plans);
  struct List {
    const char* name;
    std::vector<Invocation> Plan::*invocations;
  };
  for (const List& list : {List{"init", &Plan::init}, List{"train", &Plan::train}, List{"eval", &Plan::eval},
                           List{"exchange", &Plan::exchange}})
    for (const bool serial : {false, true}) {
      std::vector<Program> programs;
      programs.reserve(plans.size());
      for (const Plan& plan : plans) programs.push_back(link(plan, plan.*list.invocations, serial));
      Rendezvous(plans, std::move(programs)).run(std::string(list.name) + (serial ? ", serial" : ""));
    }
  for (size_t i = 0; i < plans[0].shorter.size(); ++i) {
    std::vector<Program> programs;
    for (const Plan& plan : plans) programs.push_back(link(plan, plan.shorter.at(i)));
    Rendezvous(plans, std::move(programs)).run("a roll-out of " + std::to_string(i + 1));
  }
}

}  // namespace isobar::plan
