#include "model/nets/constants.h"

#include <algorithm>
#include <stdexcept>

namespace isobar::nets {
namespace {

void expect_count(const std::string& name, size_t got, int64_t count) {
  if (static_cast<int64_t>(got) != count)
    throw std::logic_error(name + " has " + std::to_string(got) + " elements, planned were " +
                           std::to_string(count));
}

}  // namespace

plan::View indices(plan::Builder& b, const std::string& name, int64_t count,
                   std::function<std::vector<int32_t>()> make) {
  return b.constant(name, DType::i32, count, [name, count, make = std::move(make)](void* to) {
    const std::vector<int32_t> list = make();
    expect_count(name, list.size(), count);
    std::copy(list.begin(), list.end(), static_cast<int32_t*>(to));
  });
}

plan::View numbers(plan::Builder& b, const std::string& name, DType t, int64_t count,
                   std::function<std::vector<float>()> make) {
  return b.constant(name, t, count, [name, t, count, make = std::move(make)](void* to) {
    const std::vector<float> list = make();
    expect_count(name, list.size(), count);
    fill_as(t, list, to);
  });
}

void fill_as(DType t, const std::vector<float>& from, void* to) {
  for (size_t i = 0; i < from.size(); ++i) {
    if (t == DType::f32)
      static_cast<float*>(to)[i] = from[i];
    else if (t == DType::bf16)
      static_cast<bf16*>(to)[i] = to_bf16(from[i]);
    else
      static_cast<f16*>(to)[i] = to_f16(from[i]);
  }
}

}  // namespace isobar::nets
