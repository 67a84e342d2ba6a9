#include "perfmodel/score/campaigns_out.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "perfmodel/fitting/statistics.h"
#include "perfmodel/score/campaign_fit.h"

namespace isobar {
namespace {

/// The runs of one campaign, and what they say about its prices.
struct Campaign {
  std::vector<std::unique_ptr<Sample>> samples;
  std::set<std::string> ids, specifications;
  bool scored = false;
  Voice voice;

  void add(Sample s) {
    if (!ids.insert(s.id).second) return;  // the same row of the shipped table and of a copy
    specifications.insert(s.values.at(""));
    samples.push_back(std::make_unique<Sample>(std::move(s)));
  }
  Samples runs() const {
    Samples out;
    for (const auto& s : samples) out.push_back(s.get());
    return out;
  }
  Samples without(const Campaign& other) const {
    Samples out;
    for (const auto& s : samples)
      if (!other.ids.contains(s->id) && !other.specifications.contains(s->values.at("")))
        out.push_back(s.get());
    return out;
  }
};

using Campaigns = std::map<std::string, Campaign>;

void take(const Quantity& quantity, const Library& tables, bool scored, Campaigns& into) {
  for (const PublishedTable& t : tables)
    for (const PublishedRun& r : t.runs) {
      if (&quantity == &kPeakBytes && r.memory_gb <= 0) continue;
      Campaign& c = into[r.campaign];
      c.add(&quantity == &kPeakBytes ? memory_sample_of(r) : sample_of(r));
      c.scored = c.scored || scored;
    }
}

CampaignScore predicted(const Quantity& quantity, const std::string& name, const Campaign& campaign,
                        const PriceBelief& others) {
  CampaignScore out{name, {}, {}};
  const CampaignFit fit(quantity, {}, others);
  for (const Sample* s : campaign.runs()) {
    const Estimated e = fit.predict(*s);
    out.rows.push_back({s->id, s->run->choice_group(), std::exp(s->log_s), e.value, e.lower, e.upper,
                        s->run->specification(), e.news, e.share});
  }
  out.scores = score_rows(out.rows);
  return out;
}

}  // namespace

CampaignsOut leave_campaigns_out(const Quantity& quantity, const Library& scored, const Library& others) {
  Campaigns campaigns;
  take(quantity, scored, true, campaigns);
  take(quantity, others, false, campaigns);
  for (auto& [name, c] : campaigns) c.voice = voice_of(quantity, c.runs());
  CampaignsOut out;
  std::vector<ScoredRow> all;
  std::vector<double> means;
  for (const auto& [name, left_out] : campaigns) {
    if (!left_out.scored) continue;
    std::vector<Voice> voices;
    for (const auto& [other, c] : campaigns) {
      if (other == name) continue;
      Samples rows = c.without(left_out);
      voices.push_back(rows.size() == c.samples.size() ? c.voice : voice_of(quantity, std::move(rows)));
    }
    out.campaigns.push_back(
        predicted(quantity, name, left_out, believe(quantity, voices, engine_of(name), tuned_of(name))));
    const CampaignScore& c = out.campaigns.back();
    all.insert(all.end(), c.rows.begin(), c.rows.end());
    means.push_back(c.scores.mape);
    out.least = means.size() == 1 ? c.scores.coverage : std::min(out.least, c.scores.coverage);
  }
  if (means.empty()) return out;
  out.median_mape = quantile(means, 0.5);
  out.coverage = score_rows(all).coverage;
  return out;
}

}  // namespace isobar
