#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "perfmodel/fitting/statistics.h"
#include "perfmodel/score/prices/campaign_fit.h"
#include "perfmodel/score/scoreboard/predictor.h"
#include "perfmodel/score/scoreboard/referee.h"
#include "perfmodel/score/scoreboard/splits.h"

namespace isobar::perf {
namespace {

constexpr int kGivenDraws = 10;  // of the given rows
constexpr unsigned kSeed = 1;
constexpr size_t kAsked = 3;  // different runs that must remain to be predicted

/// The runs of one campaign, and their evidence on prices.
struct Campaign {
  std::vector<std::unique_ptr<Sample>> samples;
  std::set<std::string> ids, specifications;
  size_t different = 0;  // runs without repetitions
  bool scored = false;
  Voice voice;

  void add(Sample s) {
    if (!ids.insert(s.id).second) return;  // the same row of the shipped table and of a copy
    if (specifications.insert(s.values.at("")).second) ++different;
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
  for (const PublishedTable& t : tables) {
    for (const PublishedRun& r : t.runs) {
      if (&quantity == &kPeakBytes && r.memory_gb <= 0) continue;
      Campaign& c = into[r.campaign];
      c.add(&quantity == &kPeakBytes ? memory_sample_of(r) : sample_of(r));
      c.scored = c.scored || scored;
    }
    if (&quantity == &kStepSeconds)
      for (const OpenRun& o : t.open) into[o.candidates.front().campaign].scored |= scored;
  }
  // Rows that an open row may repeat are excluded from its fit.
  for (const PublishedTable& t : tables)
    for (const OpenRun& o : t.open)
      for (const PublishedRun& r : o.candidates)
        if (const auto own = into.find(r.campaign); own != into.end())
          own->second.specifications.insert(r.specification());
}

/// Predicts a campaign's runs with some of them given.
CampaignScore predicted(const Quantity& quantity, const std::string& name, const Campaign& campaign,
                        const CampaignPredictor::Believe& belief, const Others& others, size_t given) {
  CampaignScore out{name, {}, {}};
  Samples runs = campaign.runs();
  std::mt19937 random(kSeed);
  for (int draw = 0; draw < (given > 0 ? kGivenDraws : 1); ++draw) {
    if (given > 0) std::shuffle(runs.begin(), runs.end(), random);
    const Samples known(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(given));
    std::set<std::string> repeated;
    for (const Sample* s : known) repeated.insert(s->values.at(""));
    CampaignPredictor predictor(quantity, known, others, belief);
    const std::string group = given > 0 ? " draw " + std::to_string(draw) : "";
    for (const Sample* s : runs)
      if (!repeated.contains(s->values.at("")))
        out.rows.push_back(row_of(*s->run, std::exp(s->log_s), predictor.predict(*s->run), group));
  }
  out.scores = score_rows(out.rows);
  return out;
}

/// Predicts a campaign's rows with open layouts, by the other campaigns' prices and choices.
void predict_open(const Quantity& quantity, const std::string& name, const Library& scored,
                  const CampaignPredictor::Believe& belief, const Others& others,
                  std::vector<ScoredRow>& out) {
  CampaignPredictor predictor(quantity, {}, others, belief);
  for (const PublishedTable& t : scored)
    for (const OpenRun& o : t.open)
      if (o.candidates.front().campaign == name) out.push_back(row_of(o, predictor.predict(o)));
}

double median_width(const std::vector<ScoredRow>& rows) {
  std::vector<double> widths;
  for (const ScoredRow& r : rows) widths.push_back(r.upper / r.lower);
  return quantile(std::move(widths), 0.5);
}

}  // namespace

CampaignsOut leave_campaigns_out(const Quantity& quantity, const Library& scored, const Library& others,
                                 size_t given) {
  Campaigns campaigns;
  take(quantity, scored, true, campaigns);
  take(quantity, others, false, campaigns);
  std::map<std::string, Samples> rows;
  for (auto& [name, c] : campaigns) {
    rows[name] = c.runs();
    c.voice = voice_of(quantity, rows[name]);
  }
  CampaignsOut out;
  std::vector<ScoredRow> all;
  std::vector<double> means, widths;
  for (const auto& [name, left_out] : campaigns) {
    if (!left_out.scored || (given > 0 && left_out.different < given + kAsked)) continue;
    std::vector<Voice> voices;
    for (const auto& [other, c] : campaigns) {
      if (other == name || c.samples.empty()) continue;
      const Samples own = c.without(left_out);
      voices.push_back(own.size() == c.samples.size() ? c.voice : voice_of(quantity, own));
    }
    const auto belief = [&](const ForeignEngine* engine) {
      return believe(quantity, voices, engine, tuned_of(name, engine));
    };
    const Others all_others(choosers(name, rows));
    if (given == 0 && &quantity == &kStepSeconds)
      predict_open(quantity, name, scored, belief, all_others, out.open);
    if (left_out.samples.empty()) continue;
    out.campaigns.push_back(predicted(quantity, name, left_out, belief, all_others, given));
    const CampaignScore& c = out.campaigns.back();
    all.insert(all.end(), c.rows.begin(), c.rows.end());
    means.push_back(c.scores.mape);
    widths.push_back(median_width(c.rows));
    out.least = means.size() == 1 ? c.scores.coverage : std::min(out.least, c.scores.coverage);
  }
  if (means.empty()) return out;
  out.median_mape = quantile(means, 0.5);
  out.width = quantile(widths, 0.5);
  out.coverage = score_rows(all).coverage;
  return out;
}

}  // namespace isobar::perf
