// The flat program of a step: every invocation's ops in list order (a valid serial execution), each with the
// ops of other lanes that it must wait for.
//
// Waits are derived from what ops read and write, never written by hand, and from *addresses* in the placed
// arena rather than from buffer names: so memory that place() handed from one buffer to the next is covered
// by the same RAW, WAR and WAW rules, and no reuse can overtake a reader on another lane.
#pragma once
#include "model/plan/plan.h"

namespace isobar {

struct Instr {
  int32_t op;
  int32_t micro, slot;
  int32_t invocation;
  Lane lane;
  std::vector<int32_t> waits;  // indices of instrs on other lanes, at most one a lane
};

struct Program {
  std::vector<Instr> instrs;
};

/// `serial` puts every op on the compute lane.
Program link(const Plan& plan, const std::vector<Invocation>& invocations, bool serial = false);

/// Byte range [first, second) of a view in the arena, for a micro-batch slot.
std::pair<int64_t, int64_t> address(const Plan& plan, const View& v, int32_t slot);

/// Throws std::logic_error naming rank and op unless every group's collectives come in the same order with
/// the same sizes on each of its ranks, and every view lies inside its buffer. `plans` holds one plan per
/// world rank.
void check(const std::vector<Plan>& plans);

}  // namespace isobar
