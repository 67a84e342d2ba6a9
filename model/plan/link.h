// The flat program of a step: every invocation's ops in list order (a valid serial execution), each with the
// ops of other lanes that it must wait for.
//
// Waits follow from what ops read and write, by *addresses* in the placed arena rather than buffer names.
// Memory that place() reuses is thus covered by the same RAW, WAR and WAW rules.
#pragma once
#include "model/plan/plan.h"

namespace isobar::plan {

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

/// `serial` puts every op but sends on the compute lane. Stages that exchange activations and gradients would
/// deadlock if both sends blocked before their receives, and no order of blocking calls suits every schedule.
Program link(const Plan& plan, const std::vector<Invocation>& invocations, bool serial = false);

/// Derives the waits again, for a backend that fuses some instrs.
void relink(const Plan& plan, Program& program);

/// `program` without the ops on which these views do not depend: an input gradient, for example, does not
/// need the parameters' gradients.
Program needed_for(const Plan& plan, const Program& program, const std::vector<View>& wanted);

/// Byte range [first, second) of a view in a micro-batch's slot; the host arena begins at plan.memory.arena.
std::pair<int64_t, int64_t> address(const Plan& plan, const View& v, int32_t slot);

/// Elements of each rank's part in the `whole` of an all_gather (TransferAttrs::receive) or reduce_scatter
/// (TransferAttrs::send). Throws std::logic_error if they do not add up to it.
std::vector<int64_t> parts_of(const Op& op, int64_t whole, int ranks);
/// The same for each side of an all_to_all.
std::vector<int64_t> send_parts(const Op& op, int64_t whole, int ranks);
std::vector<int64_t> receive_parts(const Op& op, int64_t whole, int ranks);

/// Throws std::logic_error naming rank and op unless the ranks' plans (placed, one per world rank) can run
/// together: every view lies inside its buffer; a group's calls have the same order and sizes on all its
/// ranks, sends meeting receives; a rank uses a group on one lane; all programs, overlapped and serial, end
/// if each transfer waits for all its ranks.
void check(const std::vector<Plan>& plans);

}  // namespace isobar::plan
