// What one collective puts on the network, by tier: messages that wait for one another, and bytes that each
// rank sends.
//
//   const Placement dp{.ranks = 64, .per_host = 8};
//   double s = seconds(count_collective(OpKind::all_reduce, 1e9, dp, rates, where), rates);
//
// Ring (Thakur 2005): (n-1)/n of the bytes a rank, twice for an all-reduce, in n-1 steps each. Over several
// hosts a ring crosses from host to host once; the k ranks that a group has on a host share the work of
// crossing between their NICs, so 1/k of the bytes a NIC, while other groups of the host use theirs. Small
// all-reduces take a double binary tree instead (Sanders 2009): all bytes twice, in 2 log2(hosts) steps.
// In-switch reduction (NVLS) sends the bytes once; 1.3 is what the 8-GPU rows of published nccl-tests come
// to.
#pragma once
#include "model/plan/op.h"
#include "perfmodel/machine/coefficient.h"

namespace isobar {

struct Conditions;

struct Placement {  // of a group of ranks
  double ranks = 1;
  double per_host = 1;  // of them on one host
  double hosts() const { return ranks / per_host; }
};

struct CollectiveCounts {
  double calls = 0;
  double message_host = 0, wire_host = 0;
  double message_net = 0, wire_net = 0;  // wires of both tiers are busy at once: the slower one counts
  double sums = 0;                       // additions by cores, where ranks have no accelerators
};

/// A ring that `bytes` go around `passes` times: 1 for a gather or a scatter, 2 for an all-reduce.
CollectiveCounts ring_counts(double bytes, const Placement& group, double passes);
/// An all-reduce over a double binary tree of the hosts.
CollectiveCounts tree_counts(double bytes, const Placement& group);

/// `bytes`: of the whole operand (all_gather: of what is gathered; all_to_all and transfers: what this rank
/// sends), in elements of `element` bytes. The faster algorithm at these prices.
CollectiveCounts count_collective(OpKind kind, double bytes, double element, const Placement& group,
                                  const Counts& rates, const Conditions& where);
double seconds(const CollectiveCounts& c, const Counts& rates);
/// Adds what `seconds` charges, times `factor`.
void add(Counts& to, const CollectiveCounts& c, const Counts& rates, double factor);

}  // namespace isobar
