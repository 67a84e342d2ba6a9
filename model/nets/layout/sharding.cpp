#include "model/nets/layout/sharding.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "model/nets/layout/legal_layout.h"

namespace isobar::nets {
namespace {

/// Axes that each of a rank's groups spans.
struct GroupAxes {
  const char *tp, *cp, *samples, *whole;
  const char *cut, *partial;  // if tp > 1; `partial`: without sequence parallelism (has_partial)
  const char *norm, *metrics;
};

// Each rank's first half from the sample's begin on, its second from the end
std::vector<TokenRuns> zig_zag(const std::vector<int64_t>& parts) {
  std::vector<TokenRuns> out;
  int64_t first = 0, end = std::accumulate(parts.begin(), parts.end(), int64_t{0});
  for (const int64_t tokens : parts) {
    const int64_t count = (tokens + 1) / 2, more = tokens / 2;
    end -= more;
    out.push_back({first, count, end, more});
    first += count;
  }
  return out;
}

std::vector<TokenRuns> neighbours(const std::vector<int64_t>& parts) {
  std::vector<TokenRuns> out;
  for (int64_t first = 0; const int64_t tokens : parts) {
    out.push_back({first, tokens});
    first += tokens;
  }
  return out;
}

/// `sequence`: sequence parallelism is on; `sharded`: ZeRO at any stage.
GroupAxes group_axes(bool sequence, bool sharded) {
  return {.tp = "tp",
          .cp = "cp",
          .samples = sequence ? "tp-cp" : "cp",
          .whole = sequence ? "tp-cp-dp" : "cp-dp",
          .cut = "cp-dp",
          .partial = "tp-cp-dp",
          .norm = sharded ? "tp-cp-dp-pp" : "tp-pp",
          .metrics = "dp-pp"};
}

}  // namespace

bool has_partial(const RunSpec& spec) {
  if (spec.train.lora_rank > 0) return true;
  return spec.net.kind() == LlamaSpec::kKind &&
         (spec.net.llama().has_experts() || spec.net.llama().qk_norm || spec.net.llama().latent.any());
}

int64_t most_groups(int64_t dp, int64_t tp, int64_t cp, int64_t pp, bool sequence, bool sharded, bool wraps,
                    bool partial, int64_t ep) {
  const auto several = [&](std::string_view axes) {
    const auto spans = [&](const char* axis, int64_t size) {
      return size > 1 && axes.find(axis) != std::string_view::npos;
    };
    return spans("dp", dp) || spans("tp", tp) || spans("cp", cp) || spans("pp", pp) ? 1 : 0;
  };
  const GroupAxes a = group_axes(sequence, sharded);
  const int64_t pairs = pp == 1 ? 0 : pp == 2 && !wraps ? 2 : 4;
  const int64_t of_experts = ep == 1 ? 0 : 1 + (dp * cp > ep ? 1 : 0);
  const int64_t norm = ep > 1 ? 1 : several(a.norm);
  return of_experts + norm + several(a.tp) + several(a.cp) + several(a.samples) + several(a.whole) +
         (tp > 1 ? several(a.cut) + (partial && !sequence ? several(a.partial) : 0) : 0) +
         several(a.metrics) + pairs;
}

Sharding::Sharding(plan::Builder& b, const RunSpec& spec, int rank, int64_t tokens_of_sample)
    : at(plan::coords_of(spec.layout, rank)),
      tp(spec.layout.tp),
      cp(spec.layout.cp),
      pp(spec.layout.pp),
      ep(spec.layout.ep),
      sequence(spec.policy.sequence_parallel && tp > 1),
      batch(spec.micro_batch()),
      zig_zag_(zig_zags(limits_of(spec.net), cp, spec.policy.cp_kind)) {
  cut(plan::split_evenly(tokens_of_sample, cp));
  const auto group_among = [&](const std::string& name, std::vector<int> ranks) {
    return ranks.size() > 1 ? b.group(name, std::move(ranks)) : -1;
  };
  const auto group = [&](const std::string& name, const std::string& axes) {
    return group_among(name, plan::group_of(spec.layout, axes, rank));
  };
  // ZeRO shards over all ranks that sum the gradients, so each counts its own shard.
  const bool sharded = spec.policy.zero > 0;
  const GroupAxes axes = group_axes(sequence, sharded);
  tp_group = group("tp", axes.tp);
  cp_group = group("cp", axes.cp);
  sample_group = group("samples", axes.samples);
  whole_group = group("dp", axes.whole);
  cut_group = tp > 1 ? group("dp.cut", axes.cut) : -1;
  const plan::ExpertRanks experts = plan::expert_ranks(spec.layout, rank);
  owner = experts.owner;
  expert_copies = static_cast<int64_t>(experts.replicas.size());
  expert_copy = experts.replica;
  if (ep > 1) {
    ep_group = group_among("ep", experts.owners);
    expert_group = group_among("dp.experts", experts.replicas);
  }
  std::vector<int> norm;
  for (const int r : sharded ? std::vector{rank} : experts.owners) {
    const std::vector<int> more = plan::group_of(spec.layout, axes.norm, r);
    norm.insert(norm.end(), more.begin(), more.end());
  }
  std::sort(norm.begin(), norm.end());
  norm_group = group_among("norm", std::move(norm));
  counts_common = sharded || owner == 0;
  metrics_group = group("metrics", axes.metrics);
  counts_whole = at.tp == 0 || (sharded && sequence);
  counts_partial = at.tp == 0 || sharded;
  if (has_partial(spec) && tp > 1) partial_group = sequence ? whole_group : group("dp.partial", axes.partial);
  copies = spec.layout.dp * cp;
  copy = at.dp * cp + at.cp;
  replicas = sharded ? 1 : copies;
  replica = sharded ? 0 : copy;
}

Sharding Sharding::with_tokens(int64_t tokens_of_sample) const {
  Sharding other = *this;
  other.cut(plan::split_evenly(tokens_of_sample, cp));
  return other;
}

Sharding Sharding::with_parts(std::vector<int64_t> parts) const {
  Sharding other = *this;
  other.cut(std::move(parts));
  return other;
}

void Sharding::cut(std::vector<int64_t> parts) {
  token_parts = std::move(parts);
  token_runs = zig_zag_ ? zig_zag(token_parts) : neighbours(token_parts);
  token0 = runs().first;
  tokens = token_parts[at.cp];
  full_rows = batch * tokens;
  row_parts = sequence ? plan::split_evenly(full_rows, tp) : std::vector<int64_t>{full_rows};
  const int part = sequence ? at.tp : 0;
  row0 = std::accumulate(row_parts.begin(), row_parts.begin() + part, int64_t{0});
  rows = row_parts[part];
}

std::vector<int64_t> Sharding::row_elements(int64_t width) const {
  std::vector<int64_t> out;
  for (int64_t r : row_parts) out.push_back(r * width);
  return out;
}

}  // namespace isobar::nets
