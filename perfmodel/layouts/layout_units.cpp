#include "perfmodel/layouts/layout_units.h"
#include "perfmodel/step/cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

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
  return chunks[0].exposed(block_backward, embed_backward);
}

double UnitTimes::Chunk::exposed(double block_backward, double embed_backward) const {
  double most = 0;
  for (int i = 0; i < count; ++i) {
    const Rest& r = rests[i];
    most = std::max(most, r.seconds - r.blocks * block_backward - (r.embed ? embed_backward : 0));
  }
  return most;
}

namespace {

// What is still to come at each unit's turn; between units that are alike it changes evenly, so the ends of a
// run are enough.
void add_rests(const std::vector<Timed>& timed, bool first, UnitTimes::Chunk& out) {
  const double lowest = first ? 0 : 1;
  const auto to_come = [&](double part) {
    double s = 0;
    for (const auto& [r, seconds] : timed) {
      const double begun = part < r.part  ? 0
                           : r.stride > 0 ? std::min(r.count, std::floor((part - r.part) / r.stride) + 1)
                                          : 1;
      s += begun * seconds;
    }
    return s;
  };
  for (const auto& [r, seconds] : timed) {
    for (const double part : {r.part, r.part + (r.count - 1) * r.stride}) {
      if (out.count == static_cast<int>(out.rests.size())) break;
      const bool known =
          std::any_of(out.rests.begin(), out.rests.begin() + out.count, [&](const UnitTimes::Rest& x) {
            return x.blocks == std::max(0.0, part - 1) && x.embed == (first && part > 0);
          });
      if (known && part != lowest) continue;
      out.rests[out.count++] = {std::max(0.0, part - 1), to_come(part), first && part > 0};
    }
  }
}

}  // namespace

UnitTimes unit_times(const NetSections& n, const UnitStage& stage, const UnitPolicy& policy,
                     const Counts& rates, const Conditions& where) {
  constexpr double kF32 = 4;
  UnitTimes out;
  std::vector<Timed> timed;
  double elements = 0, all = 0;
  const OpKind kind = policy.zero > 0 ? OpKind::reduce_scatter : OpKind::all_reduce;
  const auto collective = [&](OpKind what, double bytes, double element, const Placement& group) {
    return group.ranks > 1 ? seconds(count_collective(what, bytes, element, group, rates, where), rates) : 0;
  };
  const auto section = [&](double ParameterCounts::*whole, double ParameterCounts::*matrix, bool is_matrix,
                           const Placement& group, const UnitStage& here, double times) {
    const auto of = [&](const ParameterCounts& p) {
      return !policy.by_reader ? p.*whole : is_matrix ? p.*matrix : p.*whole - p.*matrix;
    };
    const double bytes = is_matrix ? policy.matrix : kF32;
    for (const Run& r : Cutter(of(n.embed), of(n.block), of(n.head), here, policy.bucket, policy.zero == 3)) {
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
      const bool embed = r.part == 0, head = r.part > stage.blocks;
      (embed ? out.gather_embed : head ? out.gather_head : out.gather_block) += n_units * gather;
      (embed ? out.reduce_embed : head ? out.reduce_head : out.reduce_block) += n_units * reduce;
      if (!is_matrix && &group == &policy.cut && !embed && !head) out.gather_cut_vectors += n_units * gather;
      timed.push_back({r, reduce});
    }
  };
  const int kinds = std::min(stage.chunks, 3);  // those in the middle are alike
  for (int chunk = 0; chunk < kinds; ++chunk) {
    const bool last = chunk == kinds - 1;
    const double times = chunk == 1 && !last ? stage.chunks - 2 : 1;
    const UnitStage here{stage.blocks, 1, stage.first && chunk == 0, stage.last && last};
    timed.clear();
    if (policy.cut.ranks > 1 || n.block.cut > 0)
      section(&ParameterCounts::cut, &ParameterCounts::cut_matrix, true, policy.cut, here, times);
    if (policy.by_reader)
      section(&ParameterCounts::cut, &ParameterCounts::cut_matrix, false, policy.cut, here, times);
    section(&ParameterCounts::whole, &ParameterCounts::whole_matrix, true, policy.whole, here, times);
    if (policy.by_reader)
      section(&ParameterCounts::whole, &ParameterCounts::whole_matrix, false, policy.whole, here, times);
    out.chunks[chunk].times = times;
    add_rests(timed, here.first, out.chunks[chunk]);
  }
  const double blocks = stage.blocks * stage.chunks;
  for (double* of_block : {&out.reduce_block, &out.gather_block, &out.gather_cut_vectors})
    *of_block /= blocks;
  out.first_share = all > 0 ? elements / all : 0;
  return out;
}

UnitWaits waits_of(const UnitTimes& u, const UnitStage& stage, const UnitPasses& c, int zero, double slowdown,
                   bool overlap) {
  UnitWaits w;
  const double nb = stage.blocks;
  const auto chunks = static_cast<double>(stage.chunks);
  w.backward = w.added = chunks * nb * c.add;
  // What compute of a part becomes longer by with collectives beside it.
  const auto beside = [&](double compute, double collective) {
    const double slow = slowdown * std::min(compute, collective / (1 + slowdown));
    w.slowdown += slow;
    return slow + std::max(0.0, collective - compute - slow);
  };
  const auto times = [&](double n, double compute, double collective) {
    if (n <= 0 || collective <= 0) return 0.0;
    const double before = w.slowdown, each = beside(compute, collective);
    w.slowdown = before + n * (w.slowdown - before);
    return n * each;
  };
  const double back = u.gather_block - (c.reads_cut_vectors ? 0 : u.gather_cut_vectors);
  if (!overlap) {
    // A gather begins when the memory is free that the part before has been read from; reductions are last.
    const auto gathers = [&](double end, double block, double after) {
      const double left = std::max(0.0, block - after);
      const double begin = end > 0 ? end + block : block + (nb > 1 ? left : 0);
      w.prefetched += begin;
      return begin + (chunks - 1) * block + (chunks * (nb - 1) - (end > 0 || nb <= 1 ? 0 : 1)) * left;
    };
    if (zero == 3) {
      w.forward = gathers(stage.first ? u.gather_embed : 0, u.gather_block, c.after_forward) +
                  (stage.last ? std::max(0.0, u.gather_head - c.after_forward) : 0);
      w.prefetched_backward = -w.prefetched;
      w.backward += gathers(stage.last ? u.gather_head : 0, back, c.after_backward);
      w.prefetched_backward += w.prefetched;
    }
    // One unit's are added while the next one's come.
    const double left = u.reduce - std::min(u.reduce, w.added) * (1 - chunks / std::max(chunks, u.units));
    w.backward += left;
    (c.split ? w.weight : w.behind) = left + (c.split ? w.added : 0);
    return w;
  }
  // Passes beside which gradients are reduced
  const double block = c.add + (c.split ? c.block_weight : c.block_backward),
               embed = c.split ? c.embed_weight : c.embed_backward;
  if (zero == 2) {
    const double slower = 1 + slowdown;
    double left = 0;
    for (const UnitTimes::Chunk& chunk : u.chunks)
      left += chunk.times * chunk.exposed(slower * block, slower * embed);
    w.slowdown = slowdown / (1 + slowdown) * std::max(0.0, u.reduce - left);
    w.backward += left + w.slowdown;
    (c.split ? w.weight : w.behind) = c.split ? w.backward : left;
    return w;
  }
  // The first part is waited for; each later one is on its way under the one before it. A stage that was idle
  // has both.
  const auto begins = [&](double end_gather, double end_pass, double block_pass, double gather) {
    const double first = end_gather > 0 ? end_gather : gather;
    const double second = end_gather > 0 ? times(1, end_pass, gather)
                          : nb > 1       ? times(1, block_pass, gather)
                                         : 0;
    w.prefetched += first + second;
    return first + second + (chunks - 1) * gather;
  };
  const double inner = chunks * (nb - 1);
  w.forward = begins(stage.first ? u.gather_embed : 0, c.embed_forward, c.block_forward, u.gather_block) +
              times(inner - (stage.first || nb <= 1 ? 0 : 1), c.block_forward, u.gather_block);
  if (stage.last) w.forward += times(1, c.block_forward, u.gather_head);

  const double under = c.split ? 0 : u.reduce_block, at_once = nb - std::ceil(nb / c.group);
  const double pass = c.block_backward + (c.split ? -c.block_weight : c.add);
  const double begun = stage.last || nb <= 1 ? 0 : 1;
  w.prefetched_backward = -w.prefetched;
  w.backward +=
      begins(stage.last ? u.gather_head : 0, c.head_backward - (c.split ? c.head_weight : 0), pass, back);
  w.prefetched_backward += w.prefetched;
  // Beside each block the one before it is reduced and the next one gathered; one of a group has come under
  // the group before it, the others are waited for.
  w.backward += times(inner - begun - chunks * at_once, pass, back + under);
  w.backward += chunks * at_once * back + times(chunks * at_once, pass, under);
  const double last = (chunks - (stage.first ? 1 : 0)) * u.reduce_block + u.reduce_embed;
  const double reductions = (c.split ? times(inner, block, u.reduce_block) : 0) +
                            (stage.last ? times(1, block, u.reduce_head) : 0) +
                            (stage.first ? times(1, embed, u.reduce_block) : 0) + last;
  w.backward += reductions;
  (c.split ? w.weight : w.behind) = c.split ? reductions + w.added : last;
  return w;
}

}  // namespace isobar
