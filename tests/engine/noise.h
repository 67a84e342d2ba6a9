// Random numbers from a fresh seed.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

namespace isobar::engine {

inline std::vector<float> noise(int64_t n) {
  static std::mt19937 random(std::random_device{}());
  std::normal_distribution<float> normal;
  std::vector<float> out(n);
  for (float& x : out) x = normal(random);
  return out;
}

}  // namespace isobar::engine
