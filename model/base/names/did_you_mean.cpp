#include "model/base/names/did_you_mean.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace isobar {
namespace {

// Levenshtein distance.
size_t edit_distance(const std::string& word, const std::string& candidate) {
  std::vector<size_t> row(candidate.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= word.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= candidate.size(); ++j) {
      const size_t next =
          std::min({row[j] + 1, row[j - 1] + 1, diagonal + (word[i - 1] != candidate[j - 1])});
      diagonal = row[j];
      row[j] = next;
    }
  }
  return row.back();
}

// True if the letters of `word` occur in this order in `candidate`, from the beginning of one of its words
// on.
bool abbreviates(const std::string& word, const std::string& candidate) {
  for (size_t from = 0; from < candidate.size(); ++from) {
    if (candidate[from] != word[0] || (from > 0 && candidate[from - 1] != '_')) continue;
    size_t at = 0;
    for (size_t i = from; i < candidate.size() && at < word.size(); ++i) at += candidate[i] == word[at];
    if (at == word.size()) return true;
  }
  return false;
}

std::string last_part(const std::string& key) {
  return key.substr(key.rfind('.') + 1);
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& allowed) {
  const auto best =
      std::min_element(allowed.begin(), allowed.end(), [&](const std::string& a, const std::string& b) {
        return edit_distance(word, a) < edit_distance(word, b);
      });
  return best == allowed.end() ? "" : *best;
}

std::string nearest_few(const std::string& word, std::vector<std::string> allowed) {
  constexpr int kFew = 3;
  std::string few;
  for (int i = 0; i < kFew && !allowed.empty(); ++i) {
    const std::string next = nearest(word, allowed);
    std::erase(allowed, next);
    few += (few.empty() ? "" : ", ") + next;
  }
  return few;
}

// A candidate is near at a distance of one letter, for longer words of two or a third of the letters, or
// where the word abbreviates it (shortest candidate first). A word without a dot may be the last part of a
// key.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& allowed,
                         const std::string& otherwise) {
  const std::string own = last_part(word), section = word.substr(0, word.size() - own.size());
  std::vector<std::pair<size_t, std::string>> found;  // how far away it is
  for (const std::string& candidate : allowed) {
    const std::string name = last_part(candidate);
    size_t distance = edit_distance(word, candidate);
    if (section.empty()) distance = std::min(distance, edit_distance(word, name));
    if (distance <= (own.size() < 4 ? 1 : std::max<size_t>(2, own.size() / 3)))
      found.emplace_back(distance, candidate);
    else if (own.size() > 2 && candidate.starts_with(section) && abbreviates(own, name))
      found.emplace_back(100 + name.size(), candidate);
  }
  if (found.empty()) return otherwise;
  const auto best = std::min_element(found.begin(), found.end(),
                                     [](const auto& a, const auto& b) { return a.first < b.first; });
  return "did you mean '" + best->second + "'?";
}

}  // namespace isobar
