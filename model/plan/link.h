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

/// `serial` puts every op on the compute lane but sends, which keep theirs: a stage that sends activations to
/// the next while that one sends gradients back would wait for ever if both sends stood before their
/// receives, and no order of blocking calls suits every schedule.
Program link(const Plan& plan, const std::vector<Invocation>& invocations, bool serial = false);

/// Derives the waits of the same instrs again, from what the ops of `plan` read and write: for a backend that
/// runs some of them in one.
void relink(const Plan& plan, Program& program);

/// `program` without the ops that these views do not come from: of a training step, what one gradient needs
/// leaves out those of the parameters.
Program needed_for(const Plan& plan, const Program& program, const std::vector<View>& wanted);

/// Byte range [first, second) of a view, for a micro-batch slot; from plan.memory.arena on in the host arena.
std::pair<int64_t, int64_t> address(const Plan& plan, const View& v, int32_t slot);

/// Elements of each rank's part in the `whole` of an all_gather (Attrs.receive) or reduce_scatter
/// (Attrs.send). Throws std::logic_error if they do not add up to it.
std::vector<int64_t> parts_of(const Op& op, int64_t whole, int ranks);
/// The same for both sides of an all_to_all.
std::vector<int64_t> send_parts(const Op& op, int64_t whole, int ranks);
std::vector<int64_t> receive_parts(const Op& op, int64_t whole, int ranks);

/// Throws std::logic_error naming rank and op unless the ranks' plans (placed, one per world rank) can run
/// together: every view lies inside its buffer; a group's calls come in the same order with the same sizes on
/// each of its ranks, sends meeting receives; a rank uses a group on one lane only; and programs of all
/// ranks, overlapped and serial, come to their end when each transfer waits for all of its ranks.
void check(const std::vector<Plan>& plans);

}  // namespace isobar
