#include "perfmodel/layouts/stage_kinds.h"

#include <algorithm>
#include <stdexcept>

#include "model/nets/layout/stages.h"
#include "model/nets/parts.h"

namespace isobar::perf {
namespace {

// First part of each run of equal parts, and the end
std::vector<int32_t> run_begins(const std::vector<int32_t>& distinct) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < distinct.size(); ++i)
    if (i == 0 || distinct[i] != distinct[i - 1]) out.push_back(static_cast<int32_t>(i));
  out.push_back(static_cast<int32_t>(distinct.size()));
  return out;
}

// For each part of the net, a part of the small net whose cut carries the same streams: all cuts inside one
// run do.
std::vector<int32_t> like_cuts(const std::vector<int32_t>& net, const std::vector<int32_t>& small) {
  const std::vector<int32_t> from = run_begins(net), to = run_begins(small);
  if (from.size() != to.size()) throw std::logic_error("distinct_parts() has other runs than the net");
  std::vector<int32_t> out(net.size());
  for (size_t r = 0; r + 1 < from.size(); ++r)
    for (int32_t i = from[r]; i < from[r + 1]; ++i) {
      const bool same = from[r + 1] - from[r] == to[r + 1] - to[r];
      out[i] = to[r] + (same ? i - from[r] : std::min(i - from[r], 1));
    }
  return out;
}

using Group = std::vector<double>;  // parts recomputed together, by distinct part

bool holds(const Group& large, const Group& small) {
  for (size_t i = 0; i < large.size(); ++i)
    if (large[i] < small[i]) return false;
  return true;
}

void keep_largest(std::vector<Group>& largest, const Group& g) {
  for (const Group& known : largest)
    if (holds(known, g)) return;
  largest.erase(
      std::remove_if(largest.begin(), largest.end(), [&](const Group& known) { return holds(g, known); }),
      largest.end());
  largest.push_back(g);
}

// The runs of parts [begin, end) of the net
std::vector<PartRun> runs_of(const NetParts& net, int32_t begin, int32_t end, const PolicySpec& policy,
                             std::vector<Group>& largest) {
  const auto parts = static_cast<int32_t>(net.part.size());
  const nets::Stage stage{.first = std::max(begin, 1), .end = std::min(end, parts - 1)};
  std::vector<PartRun> out;
  for (int32_t i = begin; i < end; ++i) {
    if (i == begin || net.part[i] != net.part[i - 1]) out.push_back({net.part[i], 0, 0});
    PartRun& run = out.back();
    ++run.count;
    if (!net.inner(i)) continue;
    ++run.inner;
    const auto [from, to] = nets::recomputed_with(policy, stage, i);
    if (from == to)
      ++run.whole;
    else if (i != from)
      ++run.grouped;
    const bool more = i + 1 < end && net.part[i + 1] == net.part[i];
    if (more && from < to && i + 1 < to) ++run.at_once;
    if (from == to || i != from) continue;
    Group g(net.distinct());
    for (int64_t j = from; j < to; ++j) ++g[net.part[j]];
    keep_largest(largest, g);
  }
  return out;
}

StageKind stage_of(const NetParts& net, const std::vector<int32_t>& cuts, int32_t stage, int32_t pp,
                   const PolicySpec& policy, StageKinds& out, const std::vector<int32_t>& range) {
  StageKind k;
  k.stage = stage;
  const auto virtuals = static_cast<int32_t>(cuts.size()) - 1;
  std::vector<int32_t> all;
  for (int32_t v = stage; v < virtuals; v += pp) {
    StageChunk c{.chunk = v / pp,
                 .enters = v > 0 ? range[v - 1] : -1,
                 .leaves = v + 1 < virtuals ? range[v] : -1,
                 .runs = runs_of(net, cuts[v], cuts[v + 1], policy, out.largest)};
    all.insert(all.end(), net.part.begin() + cuts[v], net.part.begin() + cuts[v + 1]);
    for (const PartRun& r : c.runs) k.inner += r.inner;
    if (!k.chunks.empty()) {
      StageChunk& last = k.chunks.back();
      if (last.runs == c.runs && last.enters == c.enters && last.leaves == c.leaves) {
        ++last.times;
        continue;
      }
    }
    k.chunks.push_back(std::move(c));
  }
  k.counts = count_parts(all);
  for (PartCount& p : k.counts)
    for (const StageChunk& c : k.chunks)
      for (const PartRun& r : c.runs)
        if (r.part == p.part) p.inner += c.times * r.inner;
  return k;
}

}  // namespace

std::vector<int32_t> number_distinct(const std::vector<plan::Part>& parts) {
  std::vector<int32_t> first, out;
  for (const plan::Part& p : parts) {
    auto at = std::find(first.begin(), first.end(), p.same_as);
    if (at == first.end()) at = first.insert(first.end(), p.same_as);
    out.push_back(static_cast<int32_t>(at - first.begin()));
  }
  return out;
}

std::vector<int32_t> representatives(const std::vector<int32_t>& distinct) {
  const std::vector<int32_t> begins = run_begins(distinct);
  std::vector<int32_t> out, longest;
  for (size_t r = 0; r + 1 < begins.size(); ++r) {
    const auto part = static_cast<size_t>(distinct[begins[r]]);
    const int32_t length = begins[r + 1] - begins[r];
    if (part >= out.size()) out.resize(part + 1), longest.resize(part + 1);
    if (length > longest[part]) longest[part] = length, out[part] = begins[r] + length / 2;
  }
  return out;
}

std::vector<PartCount> count_parts(const std::vector<int32_t>& distinct) {
  std::vector<PartCount> out;
  for (const int32_t part : distinct) {
    const auto at = std::find_if(out.begin(), out.end(), [&](const PartCount& c) { return c.part == part; });
    if (at == out.end())
      out.push_back({part, 1});
    else
      ++at->count;
  }
  std::sort(out.begin(), out.end(), [](const PartCount& a, const PartCount& b) {
    return a.count != b.count ? a.count < b.count : a.part < b.part;
  });
  return out;
}

NetParts::NetParts(const NetSpec& net)
    : part(number_distinct(nets::parts_of(net))),
      cut_like(like_cuts(part, number_distinct(nets::parts_of(nets::distinct_parts(net))))),
      counts(count_parts(part)) {
  for (PartCount& c : counts)
    for (int64_t i = 0; i < static_cast<int64_t>(part.size()); ++i)
      c.inner += part[i] == c.part && inner(i) ? 1 : 0;
}

StageKinds cut_stages(const NetParts& net, const std::vector<int32_t>& cuts, int32_t pp, int32_t vpp,
                      const PolicySpec& recompute) {
  StageKinds out;
  out.begins = cuts;
  PolicySpec policy = recompute;
  policy.recompute = Recompute::full;
  const int32_t virtuals = pp * vpp;
  std::vector<int32_t> range;  // of each cut
  for (int32_t v = 0; v + 1 < virtuals; ++v) {
    const int32_t like = net.cut_like[cuts[v + 1]];
    if (out.cuts.empty() || out.cuts.back().like != like) out.cuts.push_back({v, v, like});
    ++out.cuts.back().end;
    range.push_back(static_cast<int32_t>(out.cuts.size()) - 1);
  }
  std::vector<double> seen;  // stages of each kind
  for (int32_t s = 0; s < pp; ++s) {
    StageKind k = stage_of(net, cuts, s, pp, policy, out, range);
    const auto known = std::find_if(out.kinds.begin(), out.kinds.end(),
                                    [&](const StageKind& x) { return x.chunks == k.chunks; });
    out.kind_of.push_back(static_cast<int32_t>(known - out.kinds.begin()));
    if (known != out.kinds.end()) {
      ++known->times;
    } else {
      for (const StageKind& x : out.kinds) k.before.push_back(x.times);
      out.kinds.push_back(std::move(k));
    }
  }
  for (StageKind& k : out.kinds) k.before.resize(out.kinds.size());
  out.otherwise.assign(net.distinct(), 0);
  for (const StageKind& k : out.kinds)
    for (const StageChunk& c : k.chunks)
      for (const PartRun& r : c.runs) out.otherwise[r.part] += k.times * c.times * (r.whole + r.grouped);
  for (const PartCount& c : net.counts) out.otherwise[c.part] /= c.count;
  return out;
}

}  // namespace isobar::perf
