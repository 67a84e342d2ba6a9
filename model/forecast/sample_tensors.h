// All tensors of a sample, by name: input, targets ("target", "target+1" …) and inputs known in advance.
//
//   SampleTensors sample(set);   sample.read(i);   sample[step_tensor("target", 2)]
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/data/dataset.h"

namespace isobar::forecast {

class SampleTensors {
 public:
  explicit SampleTensors(const data::Dataset& set) : set_(set) {
    for (const data::SampleTensor& t : set.tensors())
      places_.push_back((tensors_[t.name] = std::vector<float>(static_cast<size_t>(t.size))).data());
  }
  void read(int64_t i) { set_.read_tensors(i, places_); }
  float* operator[](const std::string& name) {
    const auto at = tensors_.find(name);
    return at == tensors_.end() ? nullptr : at->second.data();
  }

 private:
  const data::Dataset& set_;
  std::map<std::string, std::vector<float>> tensors_;  // std::map: pointers into it stay valid
  std::vector<float*> places_;
};

}  // namespace isobar::forecast
