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
    for (const Run& r : Cutter(of(n.embed.parameters), of(n.block.parameters), of(n.head.parameters), here,
                               policy.bucket, policy.zero == 3)) {
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
    if (policy.cut.ranks > 1 || n.block.parameters.cut > 0)
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

}  // namespace isobar
