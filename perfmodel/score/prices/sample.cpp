#include "perfmodel/score/prices/sample.h"

#include <algorithm>
#include <cmath>

namespace isobar::perf {

using Eigen::VectorXd;

Sample sample_of(const PublishedRun& r) {
  Sample s;
  s.run = &r;
  s.id = r.id;
  s.campaign = r.campaign;
  s.nodes = std::ceil(r.gpus / r.node);
  s.values = {{"", r.specification()},
              {"layout", r.layout()},
              {"precision", std::to_string(static_cast<int>(r.precision)) + (r.block_scaled ? "b" : "")},
              {"gpus", std::to_string(r.gpus)},
              {"machine", r.gpu->chip()},
              {"source", r.source},
              {"section", r.section},
              {"model", r.model + std::to_string(r.layers) + "/" + std::to_string(r.hidden) + "/" +
                            std::to_string(r.seq)}};
  s.counts = count_step(r);
  s.memory = count_memory(r);
  s.log_s = r.step_s > 0 ? std::log(r.step_s) : 0;
  const auto lb = [](double v) { return std::log2(std::max(v, 1e-9)); };
  // In octaves; switches count as several octaves each.
  const std::vector<double> x = {
      lb(r.hidden / r.tp), lb(r.micro_batch * r.seq / r.cp), lb(r.tp), lb(r.pp), lb(r.dp),
      lb(r.micro_batches()), lb(r.layers), lb(r.gpus), lb(r.seq), lb(r.hidden), lb(r.heads),
      4.0 * s.counts.ragged, lb(r.cp), lb(r.vpp), lb(r.ep), std::max(0.0, lb(r.tp * r.cp / r.node)) * 2,
      3.0 * static_cast<int>(r.recompute), 3.0 * (r.attention == AttentionKernel::flash2),
      3.0 * (r.attention == AttentionKernel::flash1), 3.0 * (r.attention == AttentionKernel::unfused),
      2.0 * r.eager_norms, 2.0 * r.compiled, 2.0 * r.sequence_parallel, 2.0 * r.zero,
      3.0 * static_cast<int>(r.precision), 3.0 * static_cast<int>(r.schedule), 3.0 * r.frozen_weights,
      3.0 * (r.experts > 0), lb(r.gpu->half / 1e12), lb(r.gpu->memory_rate / 1e9), 2.0 * r.balanced_embedding,
      2.0 * r.block_scaled, lb(r.gpu->memory_bytes / 1e9), lb(r.gpu->domain) / 2, lb(std::max(r.top_k, 1.0)),
      lb(std::max(r.experts, 1.0)) / 2,
      // Engines that reduce gradients in every micro-batch of a pipeline; allocators near their limit.
      3.0 * (r.zero == 0 && r.dp > 1 && r.pp > 1),
      8.0 * std::clamp(lb(peak_bytes(s.memory) / r.gpu->memory_bytes), -0.2, 0.2)};
  s.features = Eigen::Map<const VectorXd>(x.data(), static_cast<Eigen::Index>(x.size()));
  return s;
}

Sample memory_sample_of(const PublishedRun& r) {
  Sample s = sample_of(r);
  // The global batch is irrelevant once pipelines are full.
  PublishedRun full = r;
  full.global_batch = std::min(r.micro_batches(), 2 * r.pp) * r.dp * r.micro_batch;
  s.values[""] = full.specification();
  const bool read = r.memory_gb > 0;
  s.log_s = std::log(read ? r.memory_gb * 1073741824.0 : r.gpu->memory_bytes);
  s.bound = read ? 0 : r.outcome == Outcome::out_of_memory ? 1 : -1;
  return s;
}

Samples thin(const Samples& rows, size_t most) {
  if (rows.size() <= most) return rows;
  Samples out;
  for (size_t i = 0; i < most; ++i) out.push_back(rows[i * rows.size() / most]);
  return out;
}

}  // namespace isobar::perf
