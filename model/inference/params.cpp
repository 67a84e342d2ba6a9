#include "model/inference/params.h"

#include <algorithm>
#include <stdexcept>

#include "model/base/error.h"
#include "model/base/hash.h"
#include "model/base/rng.h"

namespace isobar {

std::vector<ElementRun> runs_of(const Param& p) {
  // The tensor as [outer, cut, inner]; one that is not cut is one row.
  int64_t outer = 1, cut = 1, inner = 1, begin = 0, extent = 1;
  for (size_t i = 0; i < p.shape.size(); ++i) {
    const auto axis = static_cast<int>(i);
    (axis < p.axis ? outer : axis == p.axis ? cut : inner) *= p.shape[i];
  }
  if (p.axis >= 0) begin = p.begin, extent = p.extent;
  if (p.axis >= static_cast<int>(p.shape.size()) || begin < 0 || begin + extent > cut ||
      p.count != outer * extent * inner)
    throw std::logic_error("the part of " + p.name + " that the plan names is none");
  if (extent == cut) return {{0, p.offset, p.count}};
  std::vector<ElementRun> runs;
  runs.reserve(static_cast<size_t>(outer));
  for (int64_t i = 0; i < outer; ++i)
    runs.push_back({(i * cut + begin) * inner, p.offset + i * extent * inner, extent * inner});
  return runs;
}

std::vector<ElementRun> kept_runs(const Plan& plan, const Param& p, int64_t Shard::*buffer) {
  std::vector<ElementRun> kept;
  for (const ElementRun& r : runs_of(p)) {
    // Shards come by their begin and do not overlap: from the last that begins before the run does.
    auto shard = std::upper_bound(plan.shards.begin(), plan.shards.end(), r.offset,
                                  [](int64_t offset, const Shard& s) { return offset < s.begin; });
    if (shard != plan.shards.begin()) --shard;
    for (; shard != plan.shards.end() && shard->begin < r.offset + r.count; ++shard) {
      const int64_t first = std::max(r.offset, shard->begin);
      const int64_t end = std::min(r.offset + r.count, shard->begin + shard->count);
      if (first < end)
        kept.push_back({r.whole + first - r.offset, (*shard).*buffer + first - shard->begin, end - first});
    }
  }
  return kept;
}

void init_params(const Plan& plan, uint64_t seed, float* params) {
  for (const Param& p : plan.params) {
    const uint64_t stream = std::stoull(sha256_hex(p.name).substr(0, 16), nullptr, 16);
    for (const ElementRun& r : kept_runs(plan, p, &Shard::params)) {
      float* x = params + r.offset;
      for (int64_t i = 0; i < r.count; ++i) {
        switch (p.init) {
          case Init::zero:
            x[i] = 0;
            break;
          case Init::one:
            x[i] = 1;
            break;
          case Init::normal:
            x[i] = p.scale * normal(seed, stream, r.whole + i);
            break;
          case Init::uniform:
            x[i] = p.scale * (2 * uniform(seed, stream, r.whole + i) - 1);
            break;
        }
      }
    }
  }
}

std::vector<Tensor> prefixed(const std::vector<Tensor>& tensors, const std::string& prefix) {
  std::vector<Tensor> out = tensors;
  for (Tensor& t : out) t.name.insert(0, prefix);
  return out;
}

void write_tensors(const Plan& plan, const SafetensorsWriter& file, const std::string& prefix,
                   int64_t Shard::*buffer, const float* data) {
  for (const Param& p : plan.params) {
    if (!p.writer) continue;
    for (const ElementRun& r : kept_runs(plan, p, buffer))
      file.write(prefix + p.name, r.whole, r.count, data + r.offset);
  }
}

void load_tensors(const Plan& plan, const SafetensorsReader& file, const std::string& prefix,
                  int64_t Shard::*buffer, float* data) {
  for (const Param& p : plan.params) {
    const auto at = file.tensors().find(prefix + p.name);
    if (at == file.tensors().end())
      throw ConfigError(file.path().string(), prefix + p.name, "is missing from the checkpoint",
                        "use one of the same net");
    if (at->second.shape != p.shape)
      throw ConfigError(file.path().string(), prefix + p.name, "has another shape than the net",
                        "use a checkpoint of the same net");
    for (const ElementRun& r : kept_runs(plan, p, buffer))
      file.read(at->second, r.whole, r.count, data + r.offset);
  }
}

}  // namespace isobar
