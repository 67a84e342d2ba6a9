#include "model/engine/validation/tracked_jacobian.h"

#include <algorithm>
#include <numeric>

#include "model/engine/validation/jacobian_statistics.h"
#include "model/inference/weights/params.h"

namespace isobar::engine {
namespace {

constexpr int64_t kRows = 32;  // most rows of a pass

int64_t elements(const plan::Tensor& t) {
  return std::accumulate(t.shape.begin(), t.shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

TrackedJacobian::TrackedJacobian(const RunSpec& spec, const plan::Plan& plan, const comm::Mpi& mpi,
                                 int threads)
    : plan_(plan), mpi_(mpi), wanted_(spec.train.jacobian_samples) {
  if (mpi.rank() == 0) jacobian_.emplace(spec, std::min(spec.net.outputs(), kRows), threads);
}

void TrackedJacobian::sample(const float* inputs, int64_t count) {
  for (int64_t i = 0; i < count && static_cast<int64_t>(samples_.size()) < wanted_; ++i) {
    const float* first = inputs + i * jacobian_->inputs();
    samples_.emplace_back(first, first + jacobian_->inputs());
  }
}

std::optional<records::JacobianRecord> TrackedJacobian::operator()(const float* params) {
  std::map<std::string, std::vector<double>> whole;
  for (const plan::Tensor& t : plan_.tensors) {  // the same on every rank
    std::vector<double> values(static_cast<size_t>(elements(t)), 0.0);
    for (const plan::Param& p : plan_.params)
      if (p.writer && p.name == t.name)
        for (const inference::ElementRun& r : inference::kept_runs(plan_, p, &plan::Shard::params))
          std::copy_n(params + r.offset, r.count, values.begin() + r.whole);
    whole[t.name] = mpi_.sum_of(std::move(values));
  }
  if (!jacobian_) return std::nullopt;
  for (const plan::Param& p : jacobian_->plan().params)
    for (const inference::ElementRun& r : inference::kept_runs(jacobian_->plan(), p, &plan::Shard::params))
      std::copy_n(whole.at(p.name).begin() + r.whole, r.count, jacobian_->weights() + r.offset);
  jacobian_->weights_changed();
  std::vector<int64_t> all(static_cast<size_t>(jacobian_->outputs()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::vector<float>> matrices;
  for (const std::vector<float>& input : samples_) matrices.push_back(jacobian_->rows(input.data(), all));
  return statistics_of(matrices, jacobian_->outputs(), jacobian_->inputs());
}

}  // namespace isobar::engine
