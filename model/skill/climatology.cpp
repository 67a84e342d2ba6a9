#include "model/skill/climatology.h"

#include <cmath>

namespace isobar::skill {
namespace {

constexpr int64_t kNoHour = -1;

int64_t hour_of_day(double hours) {
  if (!std::isfinite(hours)) return kNoHour;
  const int64_t hour = std::llround(hours) % 24;
  return hour < 0 ? hour + 24 : hour;
}

}  // namespace

void Climatology::add(double hours, const float* field) {
  Mean& m = by_hour_[hour_of_day(hours)];
  m.sum.resize(static_cast<size_t>(numbers_));
  for (size_t i = 0; i < m.sum.size(); ++i) {
    if (!std::isnan(field[i])) {
      m.sum[i] += static_cast<double>(field[i]);
      continue;
    }
    m.missing.resize(m.sum.size());
    ++m.missing[i];
  }
  ++m.fields;
}

void Climatology::finish() {
  for (auto& [hour, m] : by_hour_) {
    for (size_t i = 0; i < m.sum.size(); ++i) {
      const int64_t there = m.fields - (m.missing.empty() ? 0 : m.missing[i]);
      m.mean.push_back(static_cast<float>(m.sum[i] / static_cast<double>(there)));  // NaN if all are missing
    }
    m.sum = {}, m.missing = {};
  }
}

const float* Climatology::at(double hours) const {
  const auto found = by_hour_.find(hour_of_day(hours));
  return found == by_hour_.end() ? nullptr : found->second.mean.data();
}

}  // namespace isobar::skill
