#include "perfmodel/score/scoreboard/choices.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "model/base/text/printed.h"
#include "perfmodel/fitting/statistics.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/score/counts/memory_model.h"
#include "perfmodel/score/counts/net_counts.h"
#include "perfmodel/score/counts/step_model.h"

namespace isobar::perf {
namespace {

// Scales of likeness, chosen so that the next chip generation, half the GPUs or another engine of the family
// still count about half.
constexpr double kOtherEngine = 0.15, kOfFamily = 0.6, kUnnamed = 0.4;
constexpr double kChipOctaves = 1, kNetOctaves = 3, kGpuOctaves = 3, kSequenceOctaves = 2,
                 kStageOctaves = 1.5;
constexpr double kOtherArch = 0.6, kOtherPolicy = 0.5, kNoWords = 0.05;
constexpr double kBesidesModelParallelism = 0.05;  // ZeRO 3 is used instead of it
constexpr double kSmoothing = 0.1;                 // rows' worth of an unstated value
constexpr double kMemoryDoubt = 0.3;               // log sigma of a peak without a fit
constexpr double kMemoryWrong = 0.05;              // chance that the memory model says nothing
constexpr double kHardly = 2e-3;                   // least chance of a reading that is followed
constexpr size_t kMost = 100;                      // readings of a row

double in_octaves(double v) {
  return std::log2(std::max(v, 1e-9));
}

double likeness_of(double a, double b, double octaves) {
  const double d = (in_octaves(a) - in_octaves(b)) / octaves;
  return std::exp(-0.5 * d * d);
}

double parameters_of(const PublishedRun& r) {
  return net_parameters(r);
}

double likeness_of_nets(const PublishedRun& a, const PublishedRun& b) {
  const double kind = a.arch == b.arch ? 1 : is_of_words(a) != is_of_words(b) ? kNoWords : kOtherArch;
  return kind * likeness_of(parameters_of(a), parameters_of(b), kNetOctaves);
}

double likeness_of_engines(const ForeignEngine* a, const ForeignEngine* b) {
  if (!a || !b) return kUnnamed;
  return a == b ? 1 : a->family == b->family ? kOfFamily : kOtherEngine;
}

double layers_a_stage(const PublishedRun& r) {
  return std::max(1.0, std::ceil(r.layers / r.pp));
}

/// A value of an unsaid column, and how a run is given it.
struct Choice {
  std::string value;
  std::function<void(PublishedRun&)> take;
};

const char* word_of(AttentionKernel k) {
  switch (k) {
    case AttentionKernel::unfused:
      return "torch";
    case AttentionKernel::fused_softmax:
      return "fused";
    case AttentionKernel::flash1:
      return "flash1";
    default:
      return "flash2";
  }
}

/// 1F1B, 2 chunks, or one layer a chunk; "" for others.
std::string schedule_of(const PublishedRun& r) {
  if (r.schedule == Schedule::zb_1p || r.schedule == Schedule::zb_2p) return "";
  if (r.vpp <= 1) return "1F1B";
  return r.vpp >= layers_a_stage(r) ? "interleaved, a layer a chunk" : "interleaved, more layers a chunk";
}

/// The value that a run has of a column, as choices_of() names it; "": it says nothing of it.
std::string value_of(const PublishedRun& r, const std::string& column) {
  if (column == "flash_attention") return is_of_words(r) ? word_of(r.attention) : "";
  if (column == "sequence_parallel") return r.tp <= 1 ? "" : r.sequence_parallel ? "y" : "n";
  if (column == "zero_stage")
    return r.dp <= 1 ? "" : r.zero <= 0 ? "0" : std::to_string(static_cast<int>(r.zero));
  if (column == "schedule") return r.pp <= 1 ? "" : schedule_of(r);
  return "";
}

std::vector<Choice> choices_of(const PublishedRun& r, const std::string& column) {
  const EngineAxes any, &axes = r.runs_on ? r.runs_on->axes : any;
  std::vector<Choice> out;
  if (column == "flash_attention") {
    for (const AttentionKernel k : {AttentionKernel::flash2, AttentionKernel::flash1,
                                    AttentionKernel::fused_softmax, AttentionKernel::unfused})
      if (is_fused(k) || !is_after_flash(*r.gpu))
        out.push_back({word_of(k), [k](PublishedRun& to) {
                         const bool no_type = is_fused(k) && to.precision <= Precision::tf32;
                         to.attention = no_type ? AttentionKernel::memory_efficient : k;
                       }});
  } else if (column == "sequence_parallel") {
    for (const bool on : {false, true})
      out.push_back({on ? "y" : "n", [on](PublishedRun& to) { to.sequence_parallel = on; }});
  } else if (column == "zero_stage") {
    for (const int stage : axes.zero)
      out.push_back({std::to_string(stage), [stage](PublishedRun& to) { to.zero = stage; }});
  } else if (column == "schedule") {
    const double layers = layers_a_stage(r);
    const auto chunks = [](double v) {
      return [v](PublishedRun& to) {
        to.schedule = v > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
        to.vpp = v;
      };
    };
    out.push_back({"1F1B", chunks(1)});
    if (axes.vpp && layers > 1) out.push_back({"interleaved, a layer a chunk", chunks(layers)});
    if (axes.vpp && layers > 2 && std::fmod(layers, 2) == 0)
      out.push_back({"interleaved, more layers a chunk", chunks(2)});
  }
  return out;
}

/// Likeness of what decides about the column.
double likeness_for(const std::string& column, const PublishedRun& a, const PublishedRun& b) {
  double w = likeness_of_engines(a.runs_on, b.runs_on) * likeness_of(a.gpu->half, b.gpu->half, kChipOctaves) *
             likeness_of_nets(a, b);
  if (column == "flash_attention")
    w *= likeness_of(a.seq, b.seq, kSequenceOctaves) * (a.recompute == b.recompute ? 1 : kOtherPolicy);
  if (column == "zero_stage") w *= (a.tp * a.pp > 1) == (b.tp * b.pp > 1) ? 1 : kBesidesModelParallelism;
  if (column == "schedule") w *= likeness_of(a.pp, b.pp, kStageOctaves);
  return w;
}

/// Likeness of what decides about the engine: what both say.
double likeness_for_engine(const PublishedRun& a, const PublishedRun& b) {
  double w = likeness_of(a.gpu->half, b.gpu->half, kChipOctaves) * likeness_of_nets(a, b) *
             likeness_of(a.gpus, b.gpus, kGpuOctaves);
  w *= ((a.tp > 1) == (b.tp > 1) ? 1 : kOtherPolicy) * ((a.pp > 1) == (b.pp > 1) ? 1 : kOtherPolicy);
  w *= (a.precision > Precision::bf16) == (b.precision > Precision::bf16) ? 1 : kOtherPolicy;
  for (const char* column : {"flash_attention", "sequence_parallel", "zero_stage", "schedule"}) {
    const std::string own = a.unsaid.contains(column) ? "" : value_of(a, column);
    const std::string other = b.unsaid.contains(column) ? "" : value_of(b, column);
    if (!own.empty() && !other.empty() && own != other) w *= kOtherPolicy;
  }
  return w;
}

bool is_able(const ForeignEngine& e, const PublishedRun& r) {
  const EngineAxes& axes = e.axes;
  const bool zero =
      r.unsaid.contains("zero_stage") || r.dp <= 1 ||
      std::find(axes.zero.begin(), axes.zero.end(), std::max(0, static_cast<int>(r.zero))) != axes.zero.end();
  return zero && (axes.tp || r.tp <= 1) && (axes.pp || r.pp <= 1) && (axes.cp || r.cp <= 1) &&
         (axes.vpp || r.vpp <= 1);
}

double chance_to_fit(const PublishedRun& r) {
  const double peak = peak_bytes(count_memory(r));
  return normal_cdf(std::log(r.gpu->memory_bytes / peak) / kMemoryDoubt);
}

void keep_likeliest(std::vector<RunReading>& readings) {
  std::stable_sort(readings.begin(), readings.end(),
                   [](const RunReading& a, const RunReading& b) { return a.chance > b.chance; });
  size_t kept = 0;
  double sum = 0;
  for (; kept < readings.size() && kept < kMost; ++kept) {
    if (kept > 0 && readings[kept].chance < kHardly * readings[0].chance) break;
    sum += readings[kept].chance;
  }
  readings.resize(kept);
  for (RunReading& r : readings) r.chance /= sum;
}

constexpr size_t kLayoutChoices = 5;
/// A layout's choices, in octaves, each divided by the scale of similar choices.
std::array<double, kLayoutChoices> layout_of(const PublishedRun& r) {
  return {in_octaves(r.tp) / 0.7, in_octaves(r.pp) / 0.7, in_octaves(r.micro_batch) / 0.7,
          in_octaves(r.global_batch * r.seq) / 1.0, in_octaves(r.hidden / r.heads) / 0.4};
}

double likeness_of_layouts(const std::array<double, kLayoutChoices>& a,
                           const std::array<double, kLayoutChoices>& b) {
  double d = 0;
  for (size_t i = 0; i < kLayoutChoices; ++i) d += (a[i] - b[i]) * (a[i] - b[i]);
  return std::exp(-0.5 * d);
}

/// Values of an open row's filled columns.
std::string filled(const PublishedRun& r, const std::string& column) {
  const double v = column == "layers"        ? r.layers
                   : column == "hidden"      ? r.hidden
                   : column == "heads"       ? r.heads
                   : column == "seq_len"     ? r.seq
                   : column == "tp"          ? r.tp
                   : column == "pp"          ? r.pp
                   : column == "micro_batch" ? r.micro_batch
                                             : r.global_batch;
  return printed("%g", v);
}

}  // namespace

Choices::Choices(const Samples& others) {
  std::map<std::string, double> rows;
  for (const Sample* s : others) ++rows[s->campaign];
  for (const Sample* s : others) others_.push_back({*s->run, 1 / rows.at(s->campaign)});
}

std::vector<RunReading> Choices::by_engine(const RunReading& reading) const {
  const PublishedRun& r = reading.run;
  std::vector<RunReading> out;
  std::vector<const ForeignEngine*> engines{nullptr};
  for (const ForeignEngine& e : shipped_engines())
    if (is_able(e, r)) engines.push_back(&e);
  double sum = 0;
  for (const ForeignEngine* e : engines) {
    double like = 0;
    std::set<std::string> campaigns;
    for (const Other& o : others_) {
      // Engines without runs of their own are chosen as the others of their family.
      const bool own = o.run.runs_on == e;
      const bool of_family = e && e->campaigns.empty() && o.run.runs_on && o.run.runs_on->family == e->family;
      if (!own && !of_family) continue;
      campaigns.insert(o.run.campaign);
      like += o.weight * likeness_for_engine(r, o.run);
    }
    RunReading next = reading;
    next.run.runs_on = e;
    next.run.habits = e ? e->habits : Habits{};
    next.assumed["engine"] = e ? e->name : "another";
    next.chance = kSmoothing / static_cast<double>(engines.size()) +
                  (campaigns.empty() ? 0 : like / static_cast<double>(campaigns.size()));
    sum += next.chance;
    out.push_back(std::move(next));
  }
  for (RunReading& o : out) o.chance *= reading.chance / sum;
  return out;
}

std::vector<RunReading> Choices::by_value(const RunReading& reading, const std::string& column) const {
  const PublishedRun& r = reading.run;
  std::vector<RunReading> out;
  std::map<std::string, double> counts;
  for (const Other& o : others_)
    if (!o.run.unsaid.contains(column))
      if (const std::string value = value_of(o.run, column); !value.empty())
        counts[value] += o.weight * likeness_for(column, r, o.run);
  const std::vector<Choice> choices = choices_of(r, column);
  double sum = 0;
  for (const Choice& c : choices) {
    RunReading next = reading;
    c.take(next.run);
    next.assumed[column] = c.value;
    next.chance = counts[c.value] + kSmoothing / static_cast<double>(choices.size());
    sum += next.chance;
    out.push_back(std::move(next));
  }
  for (RunReading& o : out) o.chance *= reading.chance / sum;
  return out;
}

std::vector<RunReading> Choices::all_of(std::vector<RunReading> readings) const {
  for (const char* column : {"engine", "zero_stage", "schedule", "sequence_parallel", "flash_attention"}) {
    std::vector<RunReading> next;
    for (RunReading& r : readings) {
      if (!r.run.unsaid.contains(column)) {
        next.push_back(std::move(r));
        continue;
      }
      for (RunReading& o : std::string(column) == "engine" ? by_engine(r) : by_value(r, column))
        next.push_back(std::move(o));
    }
    readings = std::move(next);
    keep_likeliest(readings);
  }
  if (readings.size() > 1 && readings.front().run.outcome == Outcome::ran) {
    for (RunReading& r : readings) r.chance *= kMemoryWrong + (1 - kMemoryWrong) * chance_to_fit(r.run);
    keep_likeliest(readings);
  }
  return readings;
}

std::vector<RunReading> Choices::readings(const PublishedRun& run) const {
  return all_of({RunReading{run}});
}

std::vector<RunReading> Choices::readings(const OpenRun& open, bool policies) const {
  const std::vector<double> chances = layouts(open);
  std::vector<RunReading> all;
  for (size_t i = 0; i < chances.size(); ++i) {
    RunReading r{open.candidates[i], chances[i]};
    for (const std::string& column : open.missing) r.assumed[column] = filled(r.run, column);
    all.push_back(std::move(r));
  }
  keep_likeliest(all);
  return policies ? all_of(std::move(all)) : all;
}

std::vector<double> Choices::layouts(const OpenRun& open) const {
  constexpr double kAnything = 1e-4;    // no choice is impossible
  constexpr double kSizeOctaves = 1.5;  // of net and GPUs
  const PublishedRun& first = open.candidates.front();
  struct Like {
    std::array<double, kLayoutChoices> layout;
    double weight;
  };
  std::vector<Like> like;
  for (const Other& o : others_) {
    const double w = o.weight * likeness_of(parameters_of(first), parameters_of(o.run), kSizeOctaves) *
                     likeness_of(first.gpus, o.run.gpus, kSizeOctaves);
    if (w > 1e-6) like.push_back({layout_of(o.run), w});
  }
  std::vector<double> out;
  double sum = 0;
  for (const PublishedRun& r : open.candidates) {
    const auto layout = layout_of(r);
    double w = kAnything;
    for (const Like& o : like) w += o.weight * likeness_of_layouts(layout, o.layout);
    out.push_back(w * chance_to_fit(r));
    sum += out.back();
  }
  for (double& w : out) w /= sum;
  return out;
}

OpenEstimate over_readings(const std::vector<RunReading>& readings,
                           const std::function<Estimated(const PublishedRun&)>& predict) {
  struct Part {
    double weight, middle, below, above;  // log; sigmas
  };
  OpenEstimate out;
  std::vector<Part> parts;
  double least = INFINITY, most = -INFINITY, mean = 0, square = 0, within = 0;
  std::map<std::string, std::map<std::string, double>> sums;  // of middles
  for (const RunReading& r : readings) {
    const Estimated e = predict(r.run);
    if (parts.empty()) out.of = e;  // the likeliest: its news
    const double low = std::log(e.lower), middle = std::log(e.value), high = std::log(e.upper);
    parts.push_back({r.chance, middle, std::max((middle - low) / kNormal80, 1e-6),
                     std::max((high - middle) / kNormal80, 1e-6)});
    const Part& p = parts.back();
    least = std::min(least, middle - 4 * p.below);
    most = std::max(most, middle + 4 * p.above);
    mean += r.chance * middle;
    square += r.chance * middle * middle;
    within += r.chance * 0.5 * (p.below * p.below + p.above * p.above);
    for (const auto& [column, value] : r.assumed) {
      out.assumed[column][value] += r.chance;
      sums[column][value] += r.chance * middle;
    }
  }
  if (parts.size() == 1) return out;
  const auto quantile_at = [&](double share) {
    double low = least, high = most;
    for (int round = 0; round < 60; ++round) {
      const double x = 0.5 * (low + high);
      double below = 0;
      for (const Part& p : parts)
        below += p.weight * normal_cdf((x - p.middle) / (x < p.middle ? p.below : p.above));
      (below < share ? low : high) = x;
    }
    return std::exp(0.5 * (low + high));
  };
  out.of.value = quantile_at(0.5);
  out.of.lower = quantile_at(0.1);
  out.of.upper = quantile_at(0.9);
  const double variance = square - mean * mean + within;
  for (const auto& [column, values] : sums) {
    double explained = -mean * mean;
    for (const auto& [value, sum] : values) explained += sum * sum / out.assumed.at(column).at(value);
    if (explained / variance <= out.share) continue;
    out.share = explained / variance;
    out.narrows = column;
  }
  return out;
}

}  // namespace isobar::perf
