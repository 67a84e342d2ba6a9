// What the ranks with the same parameters exchange: how long the collectives of one pipeline stage take, unit
// by unit as model/plan/parameters.h cuts them, and what the passes beside them do not hide.
//
//   UnitTimes u = unit_times(sections, {.blocks = 12, .first = true}, policy, rates, where);
//   double left = u.exposed(block_backward, embed_backward);       // ZeRO 0, 1: the last micro-batch
//
// A unit is a bucket's worth of whole parts (the embedding, a block, the head), at ZeRO 3 one part. Parts are
// cut or whole under tensor parallelism, and 16-bit copies are apart from what is read in f32: up to four
// sections, each with units of its own.
#pragma once
#include <array>

#include "perfmodel/layouts/sections.h"

namespace isobar {

/// How units are cut and exchanged.
struct UnitPolicy {
  int zero = 0;
  bool by_reader = false;  // what is read in f32 is in units of its own
  double gradient = 4;     // bytes of an element
  double matrix = 4;       // of a parameter that matrix products read
  double bucket = 0;       // elements
  Placement cut, whole;    // ranks that share cut parameters, and whole ones
};

struct UnitStage {
  double blocks = 1;  // of each chunk
  int chunks = 1;
  bool first = false, last = false;  // has the embedding; the head
};

/// Seconds of one stage's collectives.
struct UnitTimes {
  double reduce = 0, units = 0;        // of all gradients, once; and how many units they are
  double gather = 0, last_gather = 0;  // of all parameters, once; of the unit that is updated last
  double first_share = 0;              // of the parameters: the unit that is updated first
  // By part, where every part is in units of its own: ZeRO 3
  double reduce_embed = 0, reduce_block = 0, reduce_head = 0;
  double gather_embed = 0, gather_block = 0, gather_head = 0;
  double gather_cut_vectors = 0;  // of gather_block: what tensor parallelism cut of what is read in f32

  /// Reductions to come when so many blocks of the pass are left, and the embedding where `embed`.
  struct Rest {
    double blocks = 0, seconds = 0;
    bool embed = false;
  };
  struct Chunk {
    double times = 0;  // as many chunks are like this one
    std::array<Rest, 24> rests{};
    int count = 0;
    /// What the chunk's backward pass does not hide.
    double exposed(double block_backward, double embed_backward) const;
  };
  std::array<Chunk, 3> chunks{};  // the first, those in the middle, the last
  /// What the last backward pass of a step does not hide, which is that of the first chunk.
  double exposed(double block_backward, double embed_backward) const;
};
UnitTimes unit_times(const NetSections& sections, const UnitStage& stage, const UnitPolicy& policy,
                     const Counts& rates, const Conditions& where);

}  // namespace isobar
