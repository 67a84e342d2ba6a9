#include "model/inference/adapters.h"

#include <algorithm>
#include <optional>

#include "model/base/error.h"
#include "model/inference/params.h"
#include "model/nets/adapter.h"

namespace isobar {
namespace {

constexpr std::string_view kWeight = ".weight";

struct Factors {
  const StoredTensor &a, &b;  // [rank, in], [out, rank]
};

bool of_adapter(const std::string& name) {
  return name.ends_with(kLoraA) || name.ends_with(kLoraB);
}

// A is of several weights where those are one linear: it has the name of what they lie in.
std::optional<Factors> factors_of(const SafetensorsReader& file, const std::string& name) {
  if (!name.ends_with(kWeight) || of_adapter(name)) return std::nullopt;
  const std::string stem = name.substr(0, name.size() - kWeight.size());
  const auto& all = file.tensors();
  const auto b = all.find(stem + kLoraB);
  if (b == all.end()) return std::nullopt;
  auto a = all.find(stem + kLoraA);
  if (a == all.end()) a = all.find(stem.substr(0, stem.rfind('.')) + kLoraA);
  if (a == all.end())
    throw ConfigError(file.path().string(), stem + kLoraA, "is missing beside " + b->first,
                      "take a checkpoint that is whole");
  const StoredTensor& w = all.at(name);
  if (a->second.shape.size() != 2 || b->second.shape.size() != 2 || w.shape.empty() ||
      a->second.shape[0] != b->second.shape[1] || w.count != b->second.shape[0] * a->second.shape[1])
    throw ConfigError(file.path().string(), b->first, "does not fit " + name + " and " + a->first,
                      "take a checkpoint that is whole");
  return Factors{a->second, b->second};
}

std::vector<double> values_of(const SafetensorsReader& file, const StoredTensor& t) {
  std::vector<double> out(static_cast<size_t>(t.count));
  file.read(t, 0, t.count, out.data());
  return out;
}

}  // namespace

std::vector<float> merged(const SafetensorsReader& file, const std::string& name, double scale) {
  std::vector<double> w = values_of(file, file.tensors().at(name));
  if (const auto f = factors_of(file, name)) {
    const std::vector<double> a = values_of(file, f->a), b = values_of(file, f->b);
    const int64_t rank = f->a.shape[0], in = f->a.shape[1], out = f->b.shape[0];
    std::vector<double> row(static_cast<size_t>(in));
    for (int64_t i = 0; i < out; ++i) {
      std::fill(row.begin(), row.end(), 0.0);
      for (int64_t r = 0; r < rank; ++r)
        for (int64_t j = 0; j < in; ++j) row[j] += b[i * rank + r] * a[r * in + j];
      for (int64_t j = 0; j < in; ++j) w[i * in + j] += scale * row[j];
    }
  }
  return {w.begin(), w.end()};
}

void merge_adapters(const Plan& plan, const SafetensorsReader& file, double scale, float* params) {
  for (const Param& p : plan.params) {
    if (!factors_of(file, p.name)) continue;
    const std::vector<float> w = merged(file, p.name, scale);
    for (const ElementRun& r : kept_runs(plan, p, &Shard::params))
      std::copy_n(w.begin() + r.whole, r.count, params + r.offset);
  }
}

int64_t export_merged(const std::filesystem::path& checkpoint, const CheckpointState& state,
                      const std::filesystem::path& to) {
  const SafetensorsReader file(checkpoint / "model.safetensors");
  std::vector<Tensor> tensors;
  for (const auto& [name, t] : file.tensors())
    if (!of_adapter(name)) tensors.push_back({name, t.shape});
  const std::filesystem::path temp = to.string() + ".tmp";
  create_safetensors(temp, tensors, file.metadata());
  const SafetensorsWriter out(temp, tensors, file.metadata());
  int64_t adapters = 0;
  for (const Tensor& t : tensors) {
    const std::vector<float> values = merged(file, t.name, state.spec.lora_scale());
    out.write(t.name, 0, static_cast<int64_t>(values.size()), values.data());
    adapters += factors_of(file, t.name) ? 1 : 0;
  }
  out.sync();
  std::filesystem::rename(temp, to);
  return adapters;
}

}  // namespace isobar
