// What the ranks with the same parameters exchange: how long the collectives of one pipeline stage take, unit
// by unit as model/plan/parameters.h cuts them, and what the passes beside them do not hide.
//
//   UnitTimes u = unit_times(sections, {.blocks = 12, .first = true}, policy, rates, where);
//   double left = u.exposed(block_backward, embed_backward);       // ZeRO 0, 1: the last micro-batch
//   UnitWaits w = waits_of(u, stage, passes, 3, slowdown, true);   // ZeRO 2, 3: every micro-batch
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

/// Seconds of compute of a chunk's parts.
struct UnitPasses {
  double embed_forward = 0, block_forward = 0, head_forward = 0;
  double embed_backward = 0, block_backward = 0, head_backward = 0;
  // Of the backward ones, weight gradients that are put off to a pass of their own: what is reduced hides
  // under these, what is gathered under the others.
  bool split = false;
  double embed_weight = 0, block_weight = 0, head_weight = 0;
  double add = 0;                                // a block's reduced gradients to those that are kept
  double after_forward = 0, after_backward = 0;  // of a block, after it has last read parameters
  bool reads_cut_vectors = true;                 // the backward pass does: biases, if it makes products again
  double group = 1;  // blocks that are recomputed together: their parameters are gathered at once
};

/// What units cost a micro-batch of one stage beyond its compute: ZeRO 2 and 3.
struct UnitWaits {
  double forward = 0, backward = 0;  // seconds that compute waits, is slower, or adds
  double prefetched = 0;             // of them, what an idle stage has done before the micro-batch comes …
  double prefetched_backward = 0;    // … and of that, before its gradient does
  double behind = 0;                 // of them, after the gradient has gone to the stage before
  double weight = 0;                 // of them, in a pass of weight gradients
  double slowdown = 0;               // of them, compute beside collectives
  double added = 0;                  // of them, adding what was reduced to what is kept
  double all() const { return forward + backward; }
};
UnitWaits waits_of(const UnitTimes& u, const UnitStage& stage, const UnitPasses& passes, int zero,
                   double slowdown, bool overlap);

}  // namespace isobar
