#include "model/engine/params.h"

#include <algorithm>

#include "model/base/error.h"
#include "model/base/hash.h"
#include "model/base/rng.h"

namespace isobar {

void init_params(const Plan& plan, uint64_t seed, float* params) {
  for (const Param& p : plan.params) {
    const uint64_t stream = std::stoull(sha256_hex(p.name).substr(0, 16), nullptr, 16);
    float* x = params + p.offset;
    for (int64_t i = 0; i < p.count; ++i) {
      switch (p.init) {
        case Init::zero:
          x[i] = 0;
          break;
        case Init::one:
          x[i] = 1;
          break;
        case Init::normal:
          x[i] = p.scale * normal(seed, stream, i);
          break;
        case Init::uniform:
          x[i] = p.scale * (2 * uniform(seed, stream, i) - 1);
          break;
      }
    }
  }
}

std::vector<TensorView> named_tensors(const Plan& plan, const float* buffer, const std::string& prefix) {
  std::vector<TensorView> out;
  for (const Param& p : plan.params) out.push_back({prefix + p.name, p.shape, buffer + p.offset});
  return out;
}

void load_tensors(const Plan& plan, const TensorFile& file, const std::string& path,
                  const std::string& prefix, float* buffer) {
  for (const Param& p : plan.params) {
    const auto at = file.tensors.find(prefix + p.name);
    if (at == file.tensors.end())
      throw ConfigError(path, prefix + p.name, "is missing from the checkpoint", "use one of the same net");
    if (at->second.shape != p.shape)
      throw ConfigError(path, prefix + p.name, "has another shape than the net",
                        "use a checkpoint of the same net");
    std::transform(at->second.values.begin(), at->second.values.end(), buffer + p.offset,
                   [](double v) { return static_cast<float>(v); });
  }
}

}  // namespace isobar
