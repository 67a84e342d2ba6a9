#include "model/nets/published/published.h"

namespace isobar::nets {

int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t all = 1;
  for (const int64_t n : shape) all *= n;
  return all;
}

PublishedTensor same_tensor(const plan::Tensor& t) {
  return {t.name, t.shape, {{t.name, 1, elements_of(t.shape), 0, 0, 0, 0}}};
}

}  // namespace isobar::nets
