#include "perfmodel/step/collective.h"

#include <algorithm>
#include <cmath>

#include "perfmodel/step/conditions.h"

namespace isobar::perf {
namespace {

constexpr double kInSwitch = 1.3;  // bytes through the link of an NVLS all-reduce, relative to its operand

// Ranks on cores share their host's link: a ring passes it once, for any number of its members there, beside
// the rings of all groups like it. `c`: as inside one host.
CollectiveCounts over_hosts(const CollectiveCounts& c, const Placement& p, const Conditions& where) {
  const double rings = static_cast<double>(where.ranks_on_host) / p.per_host;
  return {.calls = c.calls, .message_net = c.message_host, .wire_net = rings * c.wire_host, .sums = c.sums};
}

}  // namespace

CollectiveCounts ring_counts(double bytes, const Placement& p, double passes) {
  const double n = p.ranks, k = p.per_host, h = p.hosts(), share = passes * (n - 1) / n * bytes;
  CollectiveCounts c{.calls = 1};
  if (h <= 1) {
    c.message_host = passes * (n - 1);
    c.wire_host = share;
    return c;
  }
  c.message_net = passes * (h - 1);
  c.message_host = passes * (n - h);
  c.wire_net = share / k;
  c.wire_host = k > 1 ? share : 0;
  return c;
}

CollectiveCounts tree_counts(double bytes, const Placement& p) {
  const double k = p.per_host;
  return {.calls = 1,
          .message_host = 2 * (k - 1),
          .wire_host = k > 1 ? 2 * bytes : 0,
          .message_net = 2 * std::ceil(std::log2(p.hosts())),
          .wire_net = 2 * bytes / k};
}

double seconds(const CollectiveCounts& c, const Counts& r) {
  return c.calls * r[index_of(Coef::collective_call)] + c.message_host * r[index_of(Coef::message_host)] +
         c.message_net * r[index_of(Coef::message_net)] + c.sums * r[index_of(Coef::sum_host)] +
         std::max(c.wire_host * r[index_of(Coef::wire_host)], c.wire_net * r[index_of(Coef::wire_net)]);
}

void add(Counts& to, const CollectiveCounts& c, const Counts& r, double factor) {
  to[index_of(Coef::collective_call)] += factor * c.calls;
  to[index_of(Coef::message_host)] += factor * c.message_host;
  to[index_of(Coef::message_net)] += factor * c.message_net;
  to[index_of(Coef::sum_host)] += factor * c.sums;
  const bool host = c.wire_net == 0 ||
                    c.wire_host * r[index_of(Coef::wire_host)] > c.wire_net * r[index_of(Coef::wire_net)];
  if (host)
    to[index_of(Coef::wire_host)] += factor * c.wire_host;
  else
    to[index_of(Coef::wire_net)] += factor * c.wire_net;
}

CollectiveCounts count_collective(plan::OpKind kind, double bytes, double element, const Placement& p,
                                  const Counts& rates, const Conditions& where) {
  const double n = p.ranks, k = p.per_host;
  if (n <= 1) return {};
  const bool inside = p.hosts() <= 1;
  if (where.processors == 0 && !inside)
    return over_hosts(count_collective(kind, bytes, element, {n, n}, rates, where), p, where);
  switch (kind) {
    case plan::OpKind::all_reduce: {
      CollectiveCounts r = ring_counts(bytes, p, 2);
      if (where.processors == 0) {  // MPI between processes, as `isobar calibrate` measures
        r.sums = (n - 1) / n * bytes / element;
        return r;
      }
      if (inside && where.host_reduction && n > 2)
        return {.calls = 1, .message_host = 2, .wire_host = kInSwitch * bytes};
      if (inside) return r;
      const CollectiveCounts t = tree_counts(bytes, p);
      return seconds(t, rates) < seconds(r, rates) ? t : r;
    }
    case plan::OpKind::all_gather:
      return ring_counts(bytes, p, 1);
    case plan::OpKind::reduce_scatter: {
      CollectiveCounts r = ring_counts(bytes, p, 1);
      if (where.processors == 0) r.sums = (n - 1) / n * bytes / element;
      return r;
    }
    case plan::OpKind::all_to_all:  // bytes: sent by this rank, equally to each of the others
      return {.calls = 1,
              .message_host = k - 1,
              .wire_host = bytes * (k - 1) / (n - 1),
              .message_net = n - k,
              .wire_net = bytes * (n - k) / (n - 1)};
    case plan::OpKind::broadcast:
      return {.calls = 1,
              .message_host = inside ? std::ceil(std::log2(n)) : std::ceil(std::log2(k)),
              .wire_host = k > 1 ? bytes : 0,
              .message_net = inside ? 0 : std::ceil(std::log2(p.hosts())),
              .wire_net = inside ? 0 : bytes / k};
    default:  // exchange, send, recv: one message; in a ring over several hosts the crossing one is slowest
      if (inside) return {.calls = 1, .message_host = 1, .wire_host = bytes};
      return {.calls = 1, .message_net = 1, .wire_net = bytes};
  }
}

}  // namespace isobar::perf
