#include "model/forecast/jacobians.h"

#include <map>
#include <numeric>

#include "model/base/error.h"
#include "model/base/text/progress.h"
#include "model/data/written/forecast_file.h"
#include "model/engine/host/host.h"
#include "model/engine/validation/jacobian_statistics.h"
#include "model/inference/jacobian.h"

namespace isobar::forecast {
namespace {

// Elements of a sample's prediction to differentiate: every target, of fields at one point.
std::vector<int64_t> rows_of(const JacobianQuestion& q, const data::SampleShape& shape) {
  const int64_t points = shape.target.height * shape.target.width;
  int64_t at = 0;
  if (shape.of_table && !q.point.empty())
    throw ConfigError("isobar jacobian", "--point", "is for nets of fields, and this one reads numbers",
                      "leave it out");
  if (!shape.of_table) {
    if (q.point.empty())
      throw ConfigError("isobar jacobian", "--point",
                        "is missing: of fields, the Jacobian is that of the targets at one point",
                        "e.g. --point " + std::to_string(shape.target.height / 2) + "," +
                            std::to_string(shape.target.width / 2));
    if (q.point[0] < 0 || q.point[0] >= shape.target.height || q.point[1] < 0 ||
        q.point[1] >= shape.target.width)
      throw ConfigError("isobar jacobian", "--point", "is not on the grid",
                        "give ROW,COLUMN below " + std::to_string(shape.target.height) + "," +
                            std::to_string(shape.target.width));
    at = q.point[0] * shape.target.width + q.point[1];
  }
  std::vector<int64_t> rows;
  const int64_t outputs = shape.classes > 0 ? shape.classes : shape.target.channels;
  for (int64_t c = 0; c < outputs; ++c) rows.push_back(c * points + at);
  return rows;
}

std::string units_of(const inference::NetChannel& y, const inference::NetChannel& x) {
  return y.units.empty() || x.units.empty() ? "" : "(" + y.units + ") / (" + x.units + ")";
}

// Converts [outputs, inputs, H, W] of a sample to physical units.
void to_physical(const std::vector<inference::NetChannel>& inputs,
                 const std::vector<inference::NetChannel>& outputs, int64_t points,
                 std::vector<float>& rows) {
  for (size_t y = 0; y < outputs.size(); ++y)
    for (size_t x = 0; x < inputs.size(); ++x) {
      const float scale = outputs[y].std / inputs[x].std;
      float* first = rows.data() + static_cast<int64_t>(y * inputs.size() + x) * points;
      for (int64_t i = 0; i < points; ++i) first[i] *= scale;
    }
}

}  // namespace

JacobianAnswer write_jacobians(const JacobianQuestion& q, const NetAndData& from) {
  const data::SampleShape shape = from.set->shape();
  const inference::NetChannels& channels = from.state.channels;
  const std::vector<inference::NetChannel> outputs = inference::outputs_of(channels, shape.classes);
  const std::vector<int64_t> which = rows_of(q, shape);
  inference::Jacobian jacobian(from.state.spec, static_cast<int64_t>(outputs.size()), q.threads);
  jacobian.take_weights(inference::Forecaster(from.checkpoint, from.state, 1, q.threads));

  const int64_t points = shape.input.height * shape.input.width;
  data::Coordinates at = from.set->places();
  at.units.clear();
  std::vector<std::string> names;
  for (const inference::NetChannel& y : outputs)
    for (const inference::NetChannel& x : channels.inputs) {
      names.push_back("d_" + y.name + "_d_" + x.name);
      at.units.push_back(units_of(y, x));
    }
  std::map<std::string, std::string> about = {{"title", "Jacobians of " + from.checkpoint.string()},
                                              {"source", "Isobar, net.kind " + from.state.spec.net.kind()},
                                              {"history", engine::utc_now() + " isobar jacobian"}};
  if (!q.point.empty())
    about["point"] = "row " + std::to_string(q.point[0]) + ", column " + std::to_string(q.point[1]);
  data::SampleShape file_shape = shape;
  file_shape.target = {static_cast<int64_t>(names.size()), shape.input.height, shape.input.width};
  data::ForecastFile file(q.out, about, from.set->size(), file_shape, names, at, "derivative ");
  Progress bar("jacobians", from.set->size(), q.bar);
  std::vector<float> input(shape.input.size()), target(shape.target.size());
  std::vector<std::vector<float>> samples;
  for (int64_t i = 0; i < from.set->size(); ++i) {
    from.read(i, input.data(), target.data());
    std::vector<float> rows = jacobian.rows(input.data(), which);
    samples.push_back(rows);
    to_physical(channels.inputs, outputs, points, rows);
    file.append(rows.data(), from.set->target_time(i));
    bar.update(i + 1);
  }
  file.finish();
  bar.finish();

  JacobianAnswer answer;
  answer.statistics = engine::statistics_of(samples, static_cast<int64_t>(which.size()), shape.input.size());
  for (size_t x = 0; x < channels.inputs.size(); ++x) {
    const auto first = answer.statistics.sensitivity.begin() + static_cast<int64_t>(x) * points;
    answer.inputs.push_back(
        {channels.inputs[x].name, channels.inputs[x].units, std::accumulate(first, first + points, 0.0)});
  }
  return answer;
}

}  // namespace isobar::forecast
