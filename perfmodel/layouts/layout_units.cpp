#include "perfmodel/layouts/layout_units.h"
#include "perfmodel/step/cost.h"

#include <algorithm>
#include <cmath>

namespace isobar {
namespace {

// Units of one section of a chunk that begin one after the other, `stride` parts apart
struct Run {
  double count, elements;
  double part, stride;  // 0: the embedding, 1: the first block; of the first unit
};

// As ParameterCounts::part() closes units: when they are full and another part comes; at stage 3 with every
// part.
class Cutter {
 public:
  Cutter(double embed, double block, double head, const UnitStage& stage, double bucket, bool apart) {
    const double blocks = stage.blocks;
    const bool first = stage.first, last = stage.last;
    if (apart) {
      if (first) add({1, embed, 0, 0});
      add({blocks, block, 1, 1});
      if (last) add({1, head, blocks + 1, 0});
      return;
    }
    double open = first ? embed : 0, begun = first ? 0 : 1, left = blocks;
    if (open >= bucket) {
      add({1, open, begun, 0});
      open = 0, begun = 1;
    }
    if (block > 0) {
      // The unit that is begun, then all the full ones that are alike
      const double fills = std::min(left, std::max(1.0, std::ceil((bucket - open) / block)));
      open += fills * block;
      left -= fills;
      if (left > 0) {
        add({1, open, begun, 0});
        const double each = std::max(1.0, std::ceil(bucket / block));
        begun = blocks - left + 1;
        const double full = std::max(0.0, std::floor((left - 1) / each));  // the last one stays open
        if (full > 0) add({full, each * block, begun, each});
        left -= full * each;
        begun = blocks - left + 1;
        open = left * block;
      }
    }
    if (last && open >= bucket) {
      add({1, open, begun, 0});
      open = 0, begun = blocks + 1;
    }
    if (last) open += head;
    add({1, open, begun, 0});
  }
  const Run* begin() const { return runs_.data(); }
  const Run* end() const { return runs_.data() + count_; }

 private:
  void add(const Run& r) {
    if (r.elements > 0 && r.count > 0) runs_[count_++] = r;
  }
  std::array<Run, 5> runs_{};
  int count_ = 0;
};

struct Timed {
  Run run;
  double seconds;  // of the reduction of one
};

}  // namespace

double UnitTimes::exposed(double block_backward, double embed_backward) const {
  double most = 0;
  for (int i = 0; i < rest_count; ++i) {
    const Rest& r = rests[i];
    most = std::max(most, r.seconds - r.blocks * block_backward - (r.embed ? embed_backward : 0));
  }
  return most;
}

UnitTimes unit_times(const NetSections& n, const UnitStage& stage, const UnitPolicy& policy,
                     const Counts& rates, const Conditions& where) {
  constexpr double kF32 = 4;
  UnitTimes out;
  std::array<Timed, 20> timed;
  int count = 0;
  double elements = 0, all = 0;
  const OpKind kind = policy.zero > 0 ? OpKind::reduce_scatter : OpKind::all_reduce;
  const auto collective = [&](OpKind what, double bytes, double element, const Placement& group) {
    return group.ranks > 1 ? seconds(count_collective(what, bytes, element, group, rates, where), rates) : 0;
  };
  const auto section = [&](double ParameterCounts::*whole, double ParameterCounts::*matrix, bool is_matrix,
                           const Placement& group) {
    const auto of = [&](const ParameterCounts& p) {
      return !policy.by_reader ? p.*whole : is_matrix ? p.*matrix : p.*whole - p.*matrix;
    };
    const double bytes = is_matrix ? policy.matrix : kF32;
    for (int chunk = 0; chunk < std::min(stage.chunks, 3); ++chunk) {  // those in the middle are alike
      const bool last = chunk == std::min(stage.chunks, 3) - 1;
      const double times = chunk == 1 && !last ? stage.chunks - 2 : 1;
      const UnitStage here{stage.blocks, 1, stage.first && chunk == 0, stage.last && last};
      const double lowest = here.first ? 0 : 1;
      for (const Run& r :
           Cutter(of(n.embed), of(n.block), of(n.head), here, policy.bucket, policy.zero == 3)) {
        const double reduce = collective(kind, policy.gradient * r.elements, policy.gradient, group);
        const double gather =
            policy.zero > 0 ? collective(OpKind::all_gather, bytes * r.elements, bytes, group) : 0;
        const double n_units = times * r.count;
        if (elements == 0) elements = r.elements;
        all += n_units * r.elements;
        out.units += n_units;
        out.reduce += n_units * reduce;
        out.gather += n_units * gather;
        out.last_gather = gather;
        (r.part == 0             ? out.gather_embed
         : r.part > stage.blocks ? out.gather_head
                                 : out.gather_block) += n_units * gather;
        if (r.part > stage.blocks) {
          out.head += n_units * reduce;
        } else {
          const double at_end = r.part == lowest ? times : 0;
          out.end += at_end * reduce;
          out.block += (n_units - at_end) * reduce;
        }
        if (chunk == 0) timed[count++] = {r, reduce};
      }
    }
  };
  if (policy.cut.ranks > 1 || n.block.cut > 0)
    section(&ParameterCounts::cut, &ParameterCounts::cut_matrix, true, policy.cut);
  if (policy.by_reader) section(&ParameterCounts::cut, &ParameterCounts::cut_matrix, false, policy.cut);
  section(&ParameterCounts::whole, &ParameterCounts::whole_matrix, true, policy.whole);
  if (policy.by_reader) section(&ParameterCounts::whole, &ParameterCounts::whole_matrix, false, policy.whole);
  const double blocks = stage.blocks * stage.chunks;
  out.block /= blocks;
  out.gather_block /= blocks;
  out.first_share = all > 0 ? elements / all : 0;

  // What is still to come at each unit's turn; between units that are alike it changes evenly, so the ends of
  // a run are enough.
  const double lowest = stage.first ? 0 : 1;
  const auto to_come = [&](double part) {
    double s = 0;
    for (int i = 0; i < count; ++i) {
      const Run& r = timed[i].run;
      const double begun = part < r.part  ? 0
                           : r.stride > 0 ? std::min(r.count, std::floor((part - r.part) / r.stride) + 1)
                                          : 1;
      s += begun * timed[i].seconds;
    }
    return s;
  };
  for (int i = 0; i < count; ++i) {
    const Run& r = timed[i].run;
    for (const double part : {r.part, r.part + (r.count - 1) * r.stride}) {
      if (out.rest_count == static_cast<int>(out.rests.size())) break;
      const bool known =
          std::any_of(out.rests.begin(), out.rests.begin() + out.rest_count, [&](const UnitTimes::Rest& x) {
            return x.blocks == std::max(0.0, part - 1) && x.embed == (stage.first && part > 0);
          });
      if (known && part != lowest) continue;
      out.rests[out.rest_count++] = {std::max(0.0, part - 1), to_come(part), stage.first && part > 0};
    }
  }
  return out;
}

UnitWaits waits_of(const UnitTimes& u, const UnitStage& stage, const UnitPasses& c, int zero, double slowdown,
                   bool overlap) {
  UnitWaits w;
  const double nb = stage.blocks;
  const auto chunks = static_cast<double>(stage.chunks);
  // Seconds that compute waits for a gather beside it. Without overlap it begins when the memory is free that
  // the part before has been read from.
  const auto beside = [&](double compute, double gather, double times, double after_reads) {
    if (gather <= 0 || times <= 0) return 0.0;
    if (!overlap) return times * std::max(0.0, gather - after_reads);
    const double slow = slowdown * std::min(compute, gather / (1 + slowdown));
    w.slowdown += times * slow;
    return times * std::max(0.0, gather - compute - slow);
  };
  if (zero == 3) {
    // The first part is waited for; each later one is on its way under the one before it. A stage that was
    // idle has both.
    const auto begins = [&](bool end, double gather_end, double end_pass, double block_pass,
                            double after_reads) {
      const double first = end ? gather_end : u.gather_block;
      const double second = end ? beside(end_pass, u.gather_block, 1, 0)
                                : beside(block_pass, u.gather_block, std::min(1.0, nb - 1), after_reads);
      w.prefetched += first + second;
      return first + second + (chunks - 1) * u.gather_block;
    };
    const auto inner = [&](bool begun) { return chunks * (nb - 1) - (begun ? 0 : std::min(1.0, nb - 1)); };
    w.forward = begins(stage.first, u.gather_embed, c.embed_forward, c.block_forward, c.after_forward) +
                beside(c.block_forward, u.gather_block, inner(stage.first), c.after_forward);
    if (stage.last) w.forward += beside(c.block_forward, u.gather_head, 1, c.after_forward);
    w.backward = begins(stage.last, u.gather_head, c.head_backward, c.block_backward, c.after_backward) +
                 beside(c.block_backward, u.gather_block, inner(stage.last), c.after_backward);
    if (stage.first) w.backward += beside(c.block_backward, u.gather_embed, 1, c.after_backward);
    // One of a group has come under the group before it, the others are waited for.
    if (const double group = std::min(c.group, nb); group > 1) {
      const double under = beside(c.block_backward, u.gather_block, 1, c.after_backward);
      w.backward += chunks * (nb - std::ceil(nb / group)) * (u.gather_block - under);
    }
    // What is gathered and not read lies where the first gradients go next, at every second block: they wait.
    if (c.unread && overlap)
      w.backward +=
          0.5 * chunks * (nb - 1) * std::max(0.0, std::min(u.gather_block, c.block_backward) - 2 * c.lead);
  }
  // What is reduced is added by compute, which waits for it; the first micro-batch's is not: it is waited for
  // by the next gradient that wants its memory, and what comes last hides under the next pass.
  w.backward += u.reduce;
  w.behind = overlap ? u.end : u.reduce;
  if (!overlap) {
    // Whether the next pass wants its memory is up to the placement.
    if (zero == 2)
      w.first_saved = 0.5 * std::min(u.reduce, chunks * nb * (c.block_forward + c.block_backward));
    return w;
  }
  const double inner = chunks * (nb - 1) + (stage.first ? 1 : 0);
  if (zero == 2) {
    const double hidden = std::min(u.block, c.after_weights);
    w.backward -= inner * hidden;
    // A block cannot be shorter than its reduction and what lies between its first gradient and its last.
    const double first = std::max(0.0, u.block + c.weighing - c.block_backward);
    w.first_saved = inner * std::max(0.0, u.block - hidden - first) + std::min(u.head, c.lead) + u.end;
  } else {
    const double room = std::min(c.lead, std::max(0.0, c.block_backward - u.gather_block));
    w.first_saved = inner * std::min(u.block, room) + std::min(u.head, room);
  }
  return w;
}

}  // namespace isobar
