#include "bench/logs/step_numbers.h"

#include <algorithm>

namespace isobar::logs {

int64_t StepNumbers::of(const std::string& source, int64_t said) {
  const auto [at, first] = sources_.try_emplace(source, Source{said, said, 0});
  Source& s = at->second;
  if (first) {
    if (said == 0) from_zero_.insert(source);
    counts_done_ = counts_done_ || !from_zero_.contains(source);
  } else if (said > s.last) {
    s.stride = s.stride == 0 || s.stride == said - s.last ? said - s.last : -1;
    s.last = said;
  }
  return said + (counts_done_ && from_zero_.contains(source) ? 1 : 0);
}

int64_t StepNumbers::done(int64_t newest) const {
  if (newest < 0 || sources_.empty()) return newest;
  const bool from_zero = std::all_of(sources_.begin(), sources_.end(), [&](const auto& s) {
    return from_zero_.contains(s.first) || ends_strides_from_zero(s.second);
  });
  return newest + (from_zero ? 1 : 0);
}

}  // namespace isobar::logs
