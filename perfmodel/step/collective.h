// A collective's network traffic, by tier: sequential messages, and bytes sent by each rank.
//
//   const Placement dp{.ranks = 64, .per_host = 8};
//   double s = seconds(count_collective(OpKind::all_reduce, 1e9, dp, rates, where), rates);
//
// Ring (Thakur 2005): (n-1)/n of the bytes a rank, twice for an all-reduce, in n-1 steps each. Over several
// hosts a ring crosses between hosts once; a group's k ranks on a host share the crossing over their NICs,
// 1/k of the bytes each, while other groups use theirs. Small all-reduces use a double binary tree (Sanders
// 2009): all bytes twice, in 2 log2(hosts) steps. In-switch reduction (NVLS) sends the bytes once, times 1.3
// by the 8-GPU rows of published nccl-tests.
#pragma once
#include "model/plan/ops/op.h"
#include "perfmodel/machine/coefficient.h"

namespace isobar::perf {

struct Conditions;

struct Placement {  // of a group of ranks
  double ranks = 1;
  double per_host = 1;  // of them on one host
  double hosts() const { return ranks / per_host; }
};

struct CollectiveCounts {
  double calls = 0;
  double message_host = 0, wire_host = 0;
  double message_net = 0, wire_net = 0;  // wires of both tiers run concurrently: the slower one counts
  double sums = 0;                       // additions on cores, without accelerators
};

/// A ring that `bytes` pass `passes` times: 1 for a gather or a scatter, 2 for an all-reduce.
CollectiveCounts ring_counts(double bytes, const Placement& group, double passes);
/// An all-reduce over a double binary tree of the hosts.
CollectiveCounts tree_counts(double bytes, const Placement& group);

/// `bytes`: of the whole operand (all_gather: of the result; all_to_all and transfers: sent by this rank), in
/// elements of `element` bytes. Takes the faster algorithm at these prices.
CollectiveCounts count_collective(plan::OpKind kind, double bytes, double element, const Placement& group,
                                  const Counts& rates, const Conditions& where);
double seconds(const CollectiveCounts& c, const Counts& rates);
/// Adds the counts that `seconds` charges, times `factor`.
void add(Counts& to, const CollectiveCounts& c, const Counts& rates, double factor);

}  // namespace isobar::perf
