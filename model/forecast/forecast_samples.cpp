#include "model/forecast/forecast_samples.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>

#include "model/backend/cpu/isa/kernels.h"
#include "model/base/classes.h"
#include "model/base/text/progress.h"
#include "model/data/tables/class_file.h"
#include "model/data/written/forecast_arrays.h"
#include "model/data/written/forecast_file.h"
#include "model/engine/channels_of_data.h"
#include "model/engine/host/host.h"
#include "model/inference/weights/checkpoint.h"

namespace isobar::forecast {
namespace {

std::vector<std::string> names_of_outputs(const inference::CheckpointState& state) {
  std::vector<std::string> names;
  for (const inference::NetChannel& c : inference::outputs_of(state.channels, classes_of(state.spec)))
    names.push_back(c.name);
  return names;
}

}  // namespace

ForecastScores forecast_samples(const StepsQuestion& q, const NetAndData& from) {
  const auto& [checkpoint, state, opened] = from;
  const data::Dataset& set = *opened;
  const data::SampleShape shape = set.shape();
  const int64_t in = shape.input.size(), out = shape.target.size(),
                points = shape.target.height * shape.target.width;
  const std::map<std::string, std::string> about = {{"title", "forecasts of " + checkpoint.string()},
                                                    {"source", "Isobar, net.kind " + state.spec.net.kind()},
                                                    {"history", engine::utc_now() + " isobar forecast"}};
  // Made first, so that an error leaves neither a file nor a progress bar.
  auto net =
      std::make_unique<inference::Forecaster>(checkpoint, state, std::min(q.batch, set.size()), q.threads);
  std::optional<data::ForecastFile> fields;
  std::optional<data::ClassFile> classes;
  std::optional<data::ForecastArrays> arrays;
  if (std::filesystem::path(q.out).extension() == ".npz")
    arrays.emplace(q.out, shape, set.channels().targets);
  else if (shape.classes > 0)
    classes.emplace(q.out, about, set.size(), state.channels.targets.at(0).name, names_of_outputs(state),
                    set.places());
  else
    fields.emplace(q.out, about, set.size(), shape, set.channels().targets, set.places());
  ForecastScores scores;
  Progress bar("forecasts", set.size(), q.bar);
  std::vector<float> input(net->batch() * in), target(net->batch() * out),
      prediction(net->batch() * net->output().size()), mask(net->reads_mask() ? net->batch() * out : 0);
  for (int64_t first = 0; first < set.size();) {
    const int64_t n = std::min(q.batch, set.size() - first);
    if (net->batch() != n)  // the last batch
      net = std::make_unique<inference::Forecaster>(*net, n, q.threads);
    for (int64_t i = 0; i < n; ++i)
      from.read(first + i, input.data() + i * in, target.data() + i * out,
                mask.empty() ? nullptr : mask.data() + i * out);
    if (net->reads_times()) {
      std::vector<double> hours;
      for (int64_t i = 0; i < n; ++i) hours.push_back(set.hours(first + i, 0));
      net->at(std::move(hours));
    }
    (*net)(input.data(), target.data(), prediction.data(), mask.empty() ? nullptr : mask.data());
    scores.add(*net);
    if (shape.classes > 0) {
      cpu::softmax(n, shape.classes, prediction.data(), prediction.data());
      arrays ? arrays->append_classes(prediction.data(), n) : classes->append(prediction.data(), n);
      scores.count(target.data(), n);
    } else {
      inference::denormalise(state.channels.targets, points, n, prediction.data());
      for (int64_t i = 0; i < n * out && !mask.empty(); ++i)  // masked points were never trained
        if (mask[i] == 0) prediction[i] = std::numeric_limits<float>::quiet_NaN();
      for (int64_t i = 0; i < n; ++i) {
        const float* sample = prediction.data() + i * out;
        arrays ? arrays->append(sample) : fields->append(sample, set.target_time(first + i));
      }
    }
    bar.update(first += n);
  }
  if (arrays) arrays->finish();
  if (classes) classes->finish();
  if (fields) fields->finish();
  bar.finish();
  return scores;
}

}  // namespace isobar::forecast
