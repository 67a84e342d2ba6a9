#include "perfmodel/score/scoreboard/splits.h"

#include <algorithm>
#include <random>

namespace isobar::perf {

using Split = JudgeOptions::Split;

std::vector<std::vector<size_t>> parts_of(const std::vector<std::string>& of_rows, size_t most,
                                          unsigned seed) {
  std::map<std::string, std::vector<size_t>> by_value;
  for (size_t i = 0; i < of_rows.size(); ++i) by_value[of_rows[i]].push_back(i);
  std::vector<const std::vector<size_t>*> values;
  values.reserve(by_value.size());
  for (const auto& [value, rows] : by_value) values.push_back(&rows);
  std::shuffle(values.begin(), values.end(), std::mt19937(seed));
  std::vector<std::vector<size_t>> parts(std::min(most, values.size()));
  for (size_t v = 0; v < values.size(); ++v) {
    std::vector<size_t>& part = parts[v % parts.size()];
    part.insert(part.end(), values[v]->begin(), values[v]->end());
  }
  return parts;
}

size_t most_parts(const JudgeOptions& o) {
  constexpr size_t kValues = 12;  // of held-out layouts, GPU counts, models; more of them share parts
  return o.split == Split::folds ? static_cast<size_t>(o.folds) : kValues;
}

void Pool::add(Sample s) {
  owned_.push_back(std::make_unique<Sample>(std::move(s)));
  by_campaign_[owned_.back()->campaign].push_back(owned_.back().get());
}

const Samples& Pool::of(const std::string& campaign) const {
  static const Samples none;
  const auto found = by_campaign_.find(campaign);
  return found == by_campaign_.end() ? none : found->second;
}

const PriceBelief& Pool::belief_without(const Quantity& quantity, const std::string& campaign,
                                        const ForeignEngine* engine) {
  const std::pair key(campaign, engine);
  auto found = beliefs_.find(key);
  if (found == beliefs_.end()) {
    std::vector<Voice> others;
    for (const auto& [name, samples] : by_campaign_) {
      if (name == campaign) continue;
      auto& voice = voices_[name];
      if (!voice) voice = voice_of(quantity, samples);
      others.push_back(*voice);
    }
    found = beliefs_.emplace(key, believe(quantity, others, engine, tuned_of(campaign, engine))).first;
  }
  return found->second;
}

const Others& Pool::others_without(const std::string& campaign) {
  const auto found = others_.find(campaign);
  if (found != others_.end()) return found->second;
  return others_.emplace(campaign, Others(choosers(campaign, by_campaign_))).first->second;
}

Samples choosers(const std::string& campaign, const std::map<std::string, Samples>& by_campaign) {
  constexpr size_t kOfEach = 60;
  Samples out;
  for (const auto& [other, rows] : by_campaign) {
    if (other == campaign) continue;
    const Samples some = thin(rows, kOfEach);
    out.insert(out.end(), some.begin(), some.end());
  }
  return out;
}

}  // namespace isobar::perf
