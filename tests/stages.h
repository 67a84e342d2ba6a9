// Random cuts of a net into pipeline chunks.
#pragma once
#include <cstdint>
#include <vector>

namespace isobar::test {

/// layout.stages: `inner` blocks over `chunks`; those at the ends may have none. {}: too few blocks.
template <class Random>
std::vector<int64_t> random_stages(Random& random, int64_t inner, int64_t chunks) {
  std::vector<int64_t> blocks(static_cast<size_t>(chunks), 1);
  if (chunks < 2 || inner < chunks) return {};
  blocks.front() = blocks.back() = 0;
  for (int64_t rest = inner - (chunks - 2); rest > 0; --rest) ++blocks[random() % blocks.size()];
  return blocks;
}

}  // namespace isobar::test
