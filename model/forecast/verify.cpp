#include "model/forecast/verify.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

#include "model/base/error.h"
#include "model/base/latitude.h"
#include "model/base/step_tensor.h"
#include "model/base/text/joined.h"
#include "model/base/text/progress.h"
#include "model/engine/channels_of_data.h"
#include "model/forecast/net_and_data.h"
#include "model/forecast/sample_tensors.h"
#include "model/inference/forecaster.h"
#include "model/inference/roll_forward.h"
#include "model/inference/weights/open_checkpoint.h"
#include "model/skill/climatology.h"

namespace isobar::forecast {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kClimatologyFields = 20000;  // most fields averaged; beyond, an evenly spaced subset

void check(const NetAndData& n) {
  const data::SampleShape shape = n.set->shape();
  const std::string& net = n.state.spec.net.kind();
  if (shape.of_table)
    throw ConfigError(n.checkpoint.string(), "net.kind",
                      net + " reads rows of a table, and this judges fields",
                      "isobar forecast prints its errors");
  if (!n.set->target_statistics().mean.empty())
    throw ConfigError(n.checkpoint.string(), "",
                      "was written before checkpoints said how channels are normalised",
                      "train it again, or resume it for a step");
  if (shape.steps > 1 && !n.state.spec.net.rolls_out())
    throw ConfigError(n.checkpoint.string(), "--steps", "a " + net + " is not rolled forward by this version",
                      "judge one step: --steps 1");
}

bool inside(const std::vector<double>& region, double latitude, double longitude) {
  const auto east_of_west = [&](double x) { return std::fmod(std::fmod(x - region[1], 360) + 360, 360); };
  const double wide = region[3] - region[1] >= 360 ? 360 : east_of_west(region[3]);
  return latitude <= region[0] && latitude >= region[2] && east_of_west(longitude) <= wide;
}

// Weights of points. A regional net's points count as in its own metric: equally, or by area where it was
// trained so; points of a requested region count by area.
std::vector<double> weights_of(const VerifyQuestion& q, const NetAndData& n,
                               const std::optional<GridBox>& predicted) {
  const data::FieldShape s = n.set->shape().target;
  const data::Coordinates at = n.set->coordinates();
  std::vector<double> w = skill::area_weights(s.height, s.width, at.latitude);
  if (!at.no_degrees.empty()) {  // taking rows from pole to pole would be a guess
    std::fprintf(stderr, "isobar: all points count alike: %s\n", at.no_degrees.c_str());
    std::fill(w.begin(), w.end(), 1 / static_cast<double>(s.height * s.width));
  }
  const GridBox box = predicted.value_or(GridBox{0, 0, s.height, s.width});
  if (!q.region.empty() && (static_cast<int64_t>(at.latitude.size()) < s.height ||
                            static_cast<int64_t>(at.longitude.size()) < s.width))
    throw ConfigError(n.checkpoint.string(), "--region",
                      "is in degrees, and " + (at.no_degrees.empty()
                                                   ? std::string("the data do not say where their points are")
                                                   : at.no_degrees),
                      "give --data with coordinates, or leave it out");
  double sum = 0;
  for (int64_t i = 0; i < s.height * s.width; ++i) {
    const int64_t y = i / s.width, x = i % s.width;
    const bool is_predicted =
        y >= box.row && y < box.row + box.rows && x >= box.column && x < box.column + box.columns;
    double& weight = w[static_cast<size_t>(i)];
    const auto row = static_cast<size_t>(y), column = static_cast<size_t>(x);
    if (q.region.empty() ? !is_predicted : !inside(q.region, at.latitude[row], at.longitude[column]))
      weight = 0;
    else if (!is_predicted)
      throw ConfigError(n.checkpoint.string(), "--region", "reaches beyond what this net predicts",
                        "make it smaller, or leave it out");
    else if (q.region.empty() && predicted && !n.state.spec.train.latitude_weights)
      weight = 1;
    sum += weight;
  }
  if (sum == 0)
    throw ConfigError(n.checkpoint.string(), "--region", "holds no point of the data",
                      "give north,west,south,east in degrees");
  for (double& weight : w) weight /= sum;
  return w;
}

std::vector<std::vector<double>> thresholds_of(const std::vector<inference::NetChannel>& channels,
                                               const std::map<std::string, std::vector<double>>& given) {
  std::vector<std::vector<double>> out(channels.size());
  for (const auto& [name, values] : given) {
    const auto at =
        std::find_if(channels.begin(), channels.end(), [&](const auto& c) { return c.name == name; });
    if (at == channels.end())
      throw ConfigError("isobar verify", "--threshold", name + " is no target of this net",
                        "it has " + joined(channels, ", ", &inference::NetChannel::name));
    out[static_cast<size_t>(at - channels.begin())] = values;
  }
  return out;
}

// Single fields in physical units, over all times of the climatology.
std::unique_ptr<data::Dataset> open_for_climatology(const VerifyQuestion& q, const NetAndData& n,
                                                    std::string& why_not) {
  const inference::CheckpointState trained =
      inference::state_of(n.checkpoint);  // open_net_and_data has removed its data
  DataSpec d = trained.spec.data;
  d.limit_samples = 0;
  if (!q.climatology.empty()) {
    d.train = q.climatology;
    d.train_fraction = 1;
    d.dates.clear();
  }
  data::SampleShape one = n.set->shape();
  one.input.channels = one.of_a_time() + one.fixed;
  one.history = one.steps = one.first_step = 1;
  one.later = 0;
  const data::Statistics physical;
  try {
    auto past = data::open_dataset(d, d.train, data::Split::train, one, &physical);
    engine::require_targets(n.state.channels, *past, d.train);
    return past;
  } catch (const ConfigError& e) {
    if (!q.climatology.empty()) throw;
    why_not = e.what();  // the training data may no longer exist; all else works without
    return nullptr;
  }
}

int64_t mean_of(const data::Dataset& set, skill::Climatology& usual, bool bar) {
  int64_t every = (set.size() + kClimatologyFields - 1) / kClimatologyFields;
  while (std::gcd(every, int64_t{24}) > 1) ++every;  // whatever data.dt is, all hours of the day are sampled
  Progress progress("climatology", set.size() / every, bar);
  std::vector<float> input(static_cast<size_t>(set.shape().input.size())),
      field(static_cast<size_t>(set.shape().target.size()));
  int64_t fields = 0;
  for (int64_t i = 0; i < set.size(); i += every) {
    set.read(i, input.data(), field.data());
    usual.add(set.hours(i, 1), field.data());
    progress.update(++fields);
  }
  usual.finish();
  progress.finish();
  return fields;
}

}  // namespace

skill::Verification verify(const VerifyQuestion& q) {
  const NetAndData n = open_net_and_data(q.from, q.data, q.samples, q.steps);
  check(n);
  const data::Dataset& set = *n.set;
  const data::SampleShape shape = set.shape();
  const data::FieldShape out = shape.target;
  const inference::NetChannels& channels = n.state.channels;
  const auto size = static_cast<size_t>(out.size());
  const int64_t points = out.height * out.width, leads = shape.steps;
  inference::Forecaster net(n.checkpoint, n.state, 1, q.threads);
  const std::vector<double> weights = weights_of(q, n, net.region());
  const skill::Skill none(leads, out.channels, weights, thresholds_of(channels.targets, q.thresholds));
  skill::Verification v{.checkpoint = n.checkpoint.string(),
                        .of_data = n.state.spec.data.valid.empty()
                                       ? n.state.spec.data.train + ", its last part"
                                       : n.state.spec.data.valid,
                        .trained_steps = n.state.train.step,
                        .samples = set.size(),
                        .channels = channels.targets,
                        .net = none,
                        .persistence = none,
                        .climatology = none};
  for (int64_t k = 1; k <= leads; ++k) v.lead_hours.push_back(set.hours(0, k) - set.hours(0, 0));

  skill::Climatology usual(out.size());
  const std::unique_ptr<data::Dataset> past = open_for_climatology(q, n, v.no_climatology);
  if (past) v.climatology_fields = mean_of(*past, usual, q.bar);

  const data::Coordinates where = set.coordinates();
  const std::vector<double> rows = where.no_degrees.empty()
                                       ? row_weights(out.height, where.latitude)
                                       : std::vector<double>(static_cast<size_t>(out.height), 1.0);
  v.predicted.assign(static_cast<size_t>(leads), skill::ZonalSpectrum(out.channels, rows, out.width));
  v.observed = v.predicted;
  const bool masked = !n.state.spec.data.mask.empty();  // missing values are NaN, and the net reads the mean
  const bool whole = !net.region() && q.region.empty() && !masked;  // spectra need whole fields
  v.map = skill::ErrorMap({out.channels, out.height, out.width}, set.coordinates().latitude,
                          set.coordinates().longitude);

  inference::RollForward roll(net, shape.history, shape.known, shape.fixed);
  const std::vector<int64_t> persistent = set.channels().persistent();
  const auto end = channels.inputs.end() - shape.fixed;
  const std::vector<inference::NetChannel> known(end - shape.known, end);
  SampleTensors sample(set);
  std::vector<float> input(static_cast<size_t>(shape.input.size())), prediction(size), field(size),
      same(size);
  std::vector<float> forcing(static_cast<size_t>(shape.known * points));
  Progress progress("forecasts", set.size(), q.bar);
  for (int64_t i = 0; i < set.size(); ++i) {
    sample.read(i);
    for (int64_t c = 0; c < out.channels; ++c) {
      const int64_t from = persistent[static_cast<size_t>(c)];
      float* const last = &same[static_cast<size_t>(c * points)];
      from < 0 ? std::fill_n(last, points, std::numeric_limits<float>::quiet_NaN())
               : std::copy_n(sample["input"] + from * points, points, last);
      if (masked && from >= 0)  // a missing value persists as its mean
        std::replace_if(
            last, last + points, [](float x) { return std::isnan(x); },
            channels.targets[static_cast<size_t>(c)].mean);
    }
    n.normalised(channels.inputs, points, sample["input"], input.data());
    roll.start(input.data());
    for (int64_t k = 0; k < leads; ++k) {
      const auto lead = static_cast<size_t>(k);
      if (net.reads_times()) net.at({set.hours(i, k)});
      roll.step(prediction.data());
      field = prediction;
      inference::denormalise(channels.targets, points, 1, field.data());
      const float* truth = sample[step_tensor("target", k)];
      const float* then = usual.at(set.hours(i, k + 1));
      const std::vector<double> rmse = v.net.add(k, field.data(), truth, then);
      v.persistence.add(k, same.data(), truth, then);
      if (then != nullptr) v.climatology.add(k, then, truth, nullptr);
      if (whole) v.predicted[lead].add(field.data()), v.observed[lead].add(truth);
      if (k + 1 == leads) {
        v.map.add(weights, field.data(), truth);
        double error = 0;
        for (size_t c = 0; c < rmse.size(); ++c)
          error += rmse[c] / static_cast<double>(channels.targets[c].std) / static_cast<double>(rmse.size());
        v.cases.push_back({set.hours(i, 0), error});
        break;
      }
      if (shape.known > 0) n.normalised(known, points, sample[step_tensor("forcing", k)], forcing.data());
      if (masked) {  // as missing values are in the input
        for (size_t p = 0; p < size; ++p)
          if (std::isnan(truth[p])) prediction[p] = 0;
      }
      roll.follow(prediction.data(), forcing.data());
    }
    progress.update(i + 1);
  }
  progress.finish();
  return v;
}

}  // namespace isobar::forecast
