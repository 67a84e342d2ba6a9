#include "model/nets/sharding.h"

#include <numeric>

namespace isobar {

Sharding::Sharding(Builder& b, const RunSpec& spec, int rank, int64_t tokens_of_sample)
    : at(coords_of(spec.layout, rank)),
      tp(spec.layout.tp),
      cp(spec.layout.cp),
      pp(spec.layout.pp),
      sequence(spec.policy.sequence_parallel && tp > 1),
      batch(spec.micro_batch()) {
  cut(tokens_of_sample);
  const auto group = [&](const std::string& name, const std::string& axes) {
    std::vector<int> ranks = group_of(spec.layout, axes, rank);
    return ranks.size() > 1 ? b.group(name, std::move(ranks)) : -1;
  };
  tp_group = group("tp", "tp");
  cp_group = group("cp", "cp");
  sample_group = group("samples", sequence ? "tp-cp" : "cp");
  whole_group = group("dp", sequence ? "tp-cp-dp" : "cp-dp");
  cut_group = tp > 1 ? group("dp.cut", "cp-dp") : -1;
  // ZeRO's shards are of as many ranks as sum the gradients: each of them answers for its own.
  const bool sharded = spec.policy.zero > 0;
  norm_group = group("norm", sharded ? "tp-cp-dp-pp" : "tp-pp");
  metrics_group = group("metrics", "dp-pp");
  counts_whole = at.tp == 0 || (sharded && sequence);
  replicas = sharded ? 1 : spec.layout.dp * cp;
  replica = sharded ? 0 : at.dp * cp + at.cp;
}

Sharding Sharding::with_tokens(int64_t tokens_of_sample) const {
  Sharding other = *this;
  other.cut(tokens_of_sample);
  return other;
}

void Sharding::cut(int64_t tokens_of_sample) {
  token_parts = split_evenly(tokens_of_sample, cp);
  token0 = std::accumulate(token_parts.begin(), token_parts.begin() + at.cp, int64_t{0});
  tokens = token_parts[at.cp];
  full_rows = batch * tokens;
  row_parts = sequence ? split_evenly(full_rows, tp) : std::vector<int64_t>{full_rows};
  const int part = sequence ? at.tp : 0;
  row0 = std::accumulate(row_parts.begin(), row_parts.begin() + part, int64_t{0});
  rows = row_parts[part];
}

std::vector<int64_t> Sharding::row_elements(int64_t width) const {
  std::vector<int64_t> out;
  for (int64_t r : row_parts) out.push_back(r * width);
  return out;
}

}  // namespace isobar
