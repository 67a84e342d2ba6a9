#include "model/inference/weights/trained_weights.h"

#include <algorithm>

#include "model/base/error.h"
#include "model/inference/weights/named_weights.h"
#include "model/inference/weights/params.h"
#include "model/nets/transformer/adapter.h"

namespace isobar::inference {
namespace {

constexpr std::string_view kWeight = ".weight";

bool of_adapter(const std::string& name) {
  return name.ends_with(nets::kLoraA) || name.ends_with(nets::kLoraB);
}

}  // namespace

TrainedWeights::TrainedWeights(const OpenCheckpoint& checkpoint)
    : model_(checkpoint.model()),
      average_(checkpoint.average()),
      scale_(checkpoint.state().spec.lora_scale()) {}

TrainedWeights::TrainedWeights(const std::filesystem::path& file, double scale)
    : model_(std::make_shared<const SafetensorsReader>(file)), average_(nullptr), scale_(scale) {}

// Weights that form one linear share the factor A, which has the name of their container.
std::optional<TrainedWeights::Factors> TrainedWeights::factors_of(const std::string& name) const {
  if (!name.ends_with(kWeight) || of_adapter(name)) return std::nullopt;
  const std::string stem = name.substr(0, name.size() - kWeight.size());
  const auto& all = model_->tensors();
  const auto b = all.find(stem + nets::kLoraB);
  if (b == all.end()) return std::nullopt;
  auto a = all.find(stem + nets::kLoraA);
  if (a == all.end()) a = all.find(stem.substr(0, stem.rfind('.')) + nets::kLoraA);
  if (a == all.end())
    throw ConfigError(model_->path().string(), stem + nets::kLoraA, "is missing beside " + b->first,
                      "take a checkpoint that is whole");
  const StoredTensor& w = all.at(name);
  if (a->second.shape.size() != 2 || b->second.shape.size() != 2 || w.shape.empty() ||
      a->second.shape[0] != b->second.shape[1] || w.count != b->second.shape[0] * a->second.shape[1])
    throw ConfigError(model_->path().string(), b->first, "does not fit " + name + " and " + a->first,
                      "take a checkpoint that is whole");
  return Factors{a->second, b->second, a->first, b->first};
}

int64_t TrainedWeights::adapters() const {
  return std::count_if(model_->tensors().begin(), model_->tensors().end(),
                       [&](const auto& t) { return factors_of(t.first).has_value(); });
}

std::vector<double> TrainedWeights::values_of(const std::string& name) const {
  const SafetensorsReader& file = average_ && average_->tensors().contains(name) ? *average_ : *model_;
  const StoredTensor& t = file.tensors().at(name);
  if (t.shape != model_->tensors().at(name).shape)
    throw ConfigError(file.path().string(), name, "has another shape than in model.safetensors",
                      "take a checkpoint that is whole");
  std::vector<double> out(static_cast<size_t>(t.count));
  file.read(t, 0, t.count, out.data());
  return out;
}

std::vector<float> TrainedWeights::merged(const std::string& name) const {
  std::vector<double> w = values_of(name);
  if (const auto f = factors_of(name)) {
    const std::vector<double> a = values_of(f->name_a), b = values_of(f->name_b);
    const int64_t rank = f->a.shape[0], in = f->a.shape[1], out = f->b.shape[0];
    std::vector<double> row(static_cast<size_t>(in));
    for (int64_t i = 0; i < out; ++i) {
      std::fill(row.begin(), row.end(), 0.0);
      for (int64_t r = 0; r < rank; ++r)
        for (int64_t j = 0; j < in; ++j) row[j] += b[i * rank + r] * a[r * in + j];
      for (int64_t j = 0; j < in; ++j) w[i * in + j] += scale_ * row[j];
    }
  }
  return {w.begin(), w.end()};
}

std::vector<float> TrainedWeights::base(const std::string& name) const {
  const std::vector<double> w = values_of(name);
  return {w.begin(), w.end()};
}

void TrainedWeights::load(const plan::Plan& plan, float* params) const {
  load_weights(plan, *model_, "", params);
  if (average_) load_weights(plan, *average_, "", params, Absent::stays);
  for (const plan::Param& p : plan.params) {
    if (!factors_of(p.name)) continue;
    const std::vector<float> w = merged(p.name);
    for (const ElementRun& r : kept_runs(plan, p, &plan::Shard::params))
      std::copy_n(w.begin() + r.whole, r.count, params + r.offset);
  }
}

int64_t TrainedWeights::write(const std::filesystem::path& to) const {
  std::vector<plan::Tensor> tensors;
  for (const auto& [name, t] : model_->tensors())
    if (!of_adapter(name)) tensors.push_back({name, t.shape});
  const HalfFile half(to.string() + ".tmp");
  const std::filesystem::path& temp = half.path;
  create_safetensors(temp, tensors, model_->metadata());
  const SafetensorsWriter out(temp, tensors, model_->metadata());
  for (const plan::Tensor& t : tensors) {
    const std::vector<float> values = merged(t.name);
    out.write(t.name, 0, static_cast<int64_t>(values.size()), values.data());
  }
  out.sync();
  std::filesystem::rename(temp, to);
  return adapters();
}

}  // namespace isobar::inference
