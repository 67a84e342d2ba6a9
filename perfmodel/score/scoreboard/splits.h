// Splits of a table into held-out parts, and the pool of all other runs.
//
//   for (const std::vector<size_t>& test : parts_of(runs, key, 5, seed)) ...   // indices of runs
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "perfmodel/score/prices/campaign_fit.h"
#include "perfmodel/score/scoreboard/predictor.h"
#include "perfmodel/score/scoreboard/referee.h"

namespace isobar::perf {

/// Distributes values whole over parts, at random but reproducibly.
std::vector<std::vector<size_t>> parts_of(const std::vector<std::string>& values, size_t most, unsigned seed);
size_t most_parts(const JudgeOptions& options);

/// Rows of all campaigns but one that show what people choose.
Samples choosers(const std::string& campaign, const std::map<std::string, Samples>& by_campaign);

/// Samples to learn from, by campaign; owns them.
class Pool {
 public:
  void add(Sample s);
  const std::map<std::string, Samples>& by_campaign() const { return by_campaign_; }
  const Samples& of(const std::string& campaign) const;
  /// The evidence of all campaigns but this one on prices of an engine; cached.
  const PriceBelief& belief_without(const Quantity& quantity, const std::string& campaign,
                                    const ForeignEngine* engine);
  /// Choices and MFU of the others; cached.
  const Others& others_without(const std::string& campaign);

 private:
  std::vector<std::unique_ptr<Sample>> owned_;
  std::map<std::string, Samples> by_campaign_;
  std::map<std::string, std::optional<Voice>> voices_;
  std::map<std::pair<std::string, const ForeignEngine*>, PriceBelief> beliefs_;
  std::map<std::string, Others> others_;
};

}  // namespace isobar::perf
