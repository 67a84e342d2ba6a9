#include "model/data/tables/byte_pairs.h"

#include <queue>
#include <stdexcept>
#include <tuple>

namespace isobar::data {

BytePairs::BytePairs(Vocabulary vocabulary, const Merges& merges, bool whole)
    : vocabulary_(std::move(vocabulary)), whole_(whole) {
  const auto token = [&](const std::string& bytes) {
    const auto at = vocabulary_.find(bytes);
    if (at == vocabulary_.end()) throw std::invalid_argument("'" + bytes + "' is no token");
    return at->second;
  };
  for (int b = 0; b < 256; ++b) of_byte_[b] = token(std::string(1, static_cast<char>(b)));
  int32_t rank = 0;
  for (const auto& [a, b] : merges)
    merges_.try_emplace(key(token(a), token(b)), Merged{rank++, token(a + b)});
}

namespace {

constexpr int32_t kGone = -1;

}  // namespace

// Pairs wait by rank, then place; one whose tokens have changed since is passed over.
void BytePairs::merge(std::vector<int32_t>& tokens) const {
  using Pair = std::tuple<int32_t, int32_t, int32_t, int32_t>;  // rank, place, its tokens
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> waiting;
  const auto n = static_cast<int32_t>(tokens.size());
  std::vector<int32_t> before(tokens.size()), after(tokens.size());
  for (int32_t i = 0; i < n; ++i) before[i] = i - 1, after[i] = i + 1;
  const auto consider = [&](int32_t i) {
    if (i < 0 || after[i] >= n) return;
    const int32_t a = tokens[i], b = tokens[after[i]];
    if (const auto at = merges_.find(key(a, b)); at != merges_.end())
      waiting.emplace(at->second.rank, i, a, b);
  };
  for (int32_t i = 0; i + 1 < n; ++i) consider(i);
  while (!waiting.empty()) {
    const auto [rank, i, a, b] = waiting.top();
    waiting.pop();
    const int32_t next = after[i];
    if (tokens[i] != a || next >= n || tokens[next] != b) continue;
    tokens[i] = merges_.at(key(a, b)).token;
    tokens[next] = kGone;
    after[i] = after[next];
    if (after[i] < n) before[after[i]] = i;
    consider(before[i]);
    consider(i);
  }
  std::erase(tokens, kGone);
}

void BytePairs::encode(std::string_view word, std::vector<int32_t>& to) const {
  if (whole_)
    if (const auto at = vocabulary_.find(std::string(word)); at != vocabulary_.end()) {
      to.push_back(at->second);
      return;
    }
  std::vector<int32_t> tokens;
  tokens.reserve(word.size());
  for (const char c : word) tokens.push_back(of_byte_[static_cast<unsigned char>(c)]);
  merge(tokens);
  to.insert(to.end(), tokens.begin(), tokens.end());
}

}  // namespace isobar::data
