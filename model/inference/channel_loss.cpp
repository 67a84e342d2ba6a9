#include "model/inference/channel_loss.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <ranges>
#include <set>

#include "model/base/error.h"
#include "model/base/names/named_factor.h"
#include "model/base/text/joined.h"

namespace isobar::inference {
namespace {

std::string names_of(const std::vector<ChannelPlace>& places) {
  constexpr size_t kMost = 8;
  return joined(places | std::views::take(kMost), ", ", &ChannelPlace::name) +
         (places.size() > kMost ? ", …" : "");
}

// The channels that a name stands for: the channel of that name, else all channels of the variable
std::vector<size_t> named(const RunSpec& spec, const char* key, const std::string& name,
                          const std::vector<ChannelPlace>& places) {
  std::vector<size_t> out;
  for (size_t c = 0; c < places.size(); ++c)
    if (places[c].name == name) out.push_back(c);
  for (size_t c = 0; c < places.size() && (out.empty() || places[out[0]].name != name); ++c)
    if (places[c].variable == name) out.push_back(c);
  if (out.empty())
    throw ConfigError(spec.file, key, "'" + name + "' is no variable or channel that the net predicts",
                      "those are " + names_of(places));
  return out;
}

std::map<std::string, std::vector<size_t>> levels_of(const std::vector<ChannelPlace>& places) {
  std::map<std::string, std::vector<size_t>> out;  // channels of each upper-air variable
  for (size_t c = 0; c < places.size(); ++c)
    if (places[c].level > 0) out[places[c].variable].push_back(c);
  return out;
}

void weigh_levels(const std::vector<ChannelPlace>& places, std::vector<double>& w) {
  for (const auto& [variable, channels] : levels_of(places)) {
    double sum = 0;
    for (const size_t c : channels) sum += places[c].level;
    for (const size_t c : channels) w[c] *= places[c].level * static_cast<double>(channels.size()) / sum;
  }
}

void weigh_as_aurora(const TrainSpec& t, const std::vector<ChannelPlace>& places, std::vector<double>& w) {
  const auto upper = levels_of(places);
  const auto channels = static_cast<double>(places.size());
  std::set<std::string> surface;
  for (const ChannelPlace& p : places)
    if (p.level == 0) surface.insert(p.name);
  const double all = t.data_weight * channels / static_cast<double>(surface.size() + upper.size());
  for (size_t c = 0; c < places.size(); ++c)
    w[c] *= all * (places[c].level == 0
                       ? t.surface_weight
                       : t.upper_weight / static_cast<double>(upper.at(places[c].variable).size()));
}

}  // namespace

std::vector<ChannelPlace> places_of(const RunSpec& spec, const std::vector<NetChannel>& targets) {
  std::vector<ChannelPlace> out;
  if (spec.net.kind() == AuroraSpec::kKind) {
    const AuroraSpec& n = spec.net.aurora();
    for (const std::string& v : n.surf_vars) out.push_back({v, v, 0});
    for (const std::string& v : n.atmos_vars)
      for (const int64_t level : n.levels)
        out.push_back({v + std::to_string(level), v, static_cast<double>(level)});
    return out;
  }
  std::set<std::string> with_levels;
  for (const std::string& v : spec.data.variables)
    if (const size_t at = v.find('@'); at != std::string::npos) with_levels.insert(v.substr(0, at));
  for (const NetChannel& c : targets) {
    ChannelPlace p{c.name, c.name, 0};
    for (const std::string& v : with_levels) {
      char* end = nullptr;
      const double level = c.name.starts_with(v) ? std::strtod(c.name.c_str() + v.size(), &end) : 0;
      if (level > 0 && end != nullptr && *end == 0) p.variable = v, p.level = level;
    }
    out.push_back(std::move(p));
  }
  return out;
}

bool weighs_channels(const TrainSpec& t) {
  return !t.variable_weights.empty() || t.level_weights != LevelWeights::none ||
         t.loss_weighting != LossWeighting::channels;
}

TrainSpec with_channel_loss(const RunSpec& spec, const std::vector<NetChannel>& targets) {
  TrainSpec t = spec.train;
  if (!weighs_channels(t) && t.intensity.empty()) return t;
  const std::vector<ChannelPlace> places = places_of(spec, targets);
  const bool upper =
      std::any_of(places.begin(), places.end(), [](const ChannelPlace& p) { return p.level > 0; });
  if (weighs_channels(t)) {
    if ((t.level_weights != LevelWeights::none || t.loss_weighting == LossWeighting::aurora) && !upper)
      throw ConfigError(
          spec.file, t.level_weights != LevelWeights::none ? "train.level_weights" : "train.loss_weighting",
          "is of levels, and no channel has one",
          "name variables with their levels in data.variables, e.g. z@500,850");
    std::vector<double> w(places.size(), 1.0);
    for (const std::string& text : t.variable_weights) {
      const auto f = named_factor(text);
      for (const size_t c : named(spec, "train.variable_weights", f->name, places)) w[c] = f->factor;
    }
    if (t.level_weights == LevelWeights::pressure) weigh_levels(places, w);
    if (t.loss_weighting == LossWeighting::aurora) weigh_as_aurora(t, places, w);
    if (t.loss_weighting == LossWeighting::mean) {
      const double mean = std::accumulate(w.begin(), w.end(), 0.0) / static_cast<double>(w.size());
      if (mean == 0)
        throw ConfigError(spec.file, "train.variable_weights", "are all 0", "give some channel a weight");
      for (double& x : w) x /= mean;
    }
    t.loss_weights = w;
  }
  if (t.intensity.empty()) return t;
  t.intense_above.assign(places.size(), std::numeric_limits<double>::infinity());
  t.intense_weights.assign(places.size(), 1.0);
  for (const std::string& text : t.intensity) {
    const auto f = named_threshold(text);
    for (const size_t c : named(spec, "train.intensity", f->name, places)) {
      const NetChannel& known = targets.at(c);
      t.intense_above[c] = (f->above - static_cast<double>(known.mean)) / static_cast<double>(known.std);
      t.intense_weights[c] = f->factor;
    }
  }
  return t;
}

}  // namespace isobar::inference
