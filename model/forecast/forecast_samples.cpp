#include "model/forecast/forecast_samples.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>

#include "model/backend/cpu/isa/kernels.h"
#include "model/base/classes.h"
#include "model/base/text/progress.h"
#include "model/data/files/npy.h"
#include "model/data/files/npz.h"
#include "model/data/tables/class_file.h"
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

/// Forecasts as NumPy's .npz: an array for each target in its own units, [rows] for a table or [time, H, W]
/// for fields. A classifier writes the class `TARGET` [rows] i32 and `TARGET_probability` [rows, classes].
/// All arrays stay in memory until finish().
class ForecastArrays {
 public:
  /// Throws ConfigError when the file cannot be written.
  ForecastArrays(std::string path, const data::SampleShape& shape, std::vector<std::string> names)
      : out_(std::move(path)), shape_(shape), names_(std::move(names)) {
    bytes_.resize(shape.classes > 0 ? 2 : names_.size());
  }

  void append(const float* fields) {  // [C,H,W] in physical units
    const int64_t points = shape_.target.height * shape_.target.width;
    for (size_t c = 0; c < bytes_.size(); ++c)
      append_bytes(bytes_[c], fields + static_cast<int64_t>(c) * points, points);
    ++samples_;
  }

  void append_classes(const float* probabilities, int64_t rows) {  // [rows, classes]
    append_bytes(bytes_[0], data::most_probable(probabilities, rows, shape_.classes).data(), rows);
    append_bytes(bytes_[1], probabilities, rows * shape_.classes);
    samples_ += rows;
  }

  void finish() {  // renamed to `path` when complete
    if (shape_.classes > 0) {
      out_.add(names_.at(0), data::npy_bytes("<i4", {samples_}, bytes_[0]));
      out_.add(names_.at(0) + "_probability", data::npy_bytes("<f4", {samples_, shape_.classes}, bytes_[1]));
    } else {
      std::vector<int64_t> shape{samples_};
      if (!shape_.of_table) shape.insert(shape.end(), {shape_.target.height, shape_.target.width});
      for (size_t c = 0; c < names_.size(); ++c)
        out_.add(names_[c], data::npy_bytes("<f4", shape, bytes_[c]));
    }
    out_.finish();
  }

 private:
  template <class T>
  static void append_bytes(std::string& to, const T* from, int64_t count) {
    to.append(reinterpret_cast<const char*>(from), static_cast<size_t>(count) * sizeof(T));
  }

  data::NpzOutput out_;
  const data::SampleShape shape_;
  const std::vector<std::string> names_;
  std::vector<std::string> bytes_;  // by name; for a classifier: classes, then probabilities
  int64_t samples_ = 0;
};

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
  std::optional<ForecastArrays> arrays;
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
