// Addresses into which the host reads a batch: one for each tensor of Plan::batch, null if this rank does not
// read it.
//
//   backend.on_fetch([&](int32_t micro, const BatchPlaces& to) { read(micro, to.floats("input")); });
#pragma once
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "model/plan/plan.h"

namespace isobar {

class BatchPlaces {
 public:
  /// `at`: in the order of the plan's batch, which is that of a fetch's writes.
  BatchPlaces(const plan::Plan& plan, std::vector<std::byte*> at) : plan_(plan), at_(std::move(at)) {}

  const std::vector<plan::BatchTensor>& tensors() const { return plan_.batch; }
  /// Throws std::out_of_range for a tensor that the net does not read.
  std::byte* at(const std::string& name) const {
    for (size_t i = 0; i < plan_.batch.size(); ++i)
      if (plan_.batch[i].name == name) return at_.at(i);
    throw std::out_of_range("the net reads no " + name);
  }
  float* floats(const std::string& name) const { return reinterpret_cast<float*>(at(name)); }

 private:
  const plan::Plan& plan_;
  std::vector<std::byte*> at_;
};

}  // namespace isobar
