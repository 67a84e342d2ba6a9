#include "model/data/written/forecast_arrays.h"

#include "model/data/tables/class_file.h"

namespace isobar::data {
namespace {

template <class T>
void append_bytes(std::string& to, const T* from, int64_t count) {
  to.append(reinterpret_cast<const char*>(from), static_cast<size_t>(count) * sizeof(T));
}

}  // namespace

ForecastArrays::ForecastArrays(std::string path, const SampleShape& shape, std::vector<std::string> names)
    : out_(std::move(path)), shape_(shape), names_(std::move(names)) {
  bytes_.resize(shape.classes > 0 ? 2 : names_.size());
}

void ForecastArrays::append(const float* fields) {
  const int64_t points = shape_.target.height * shape_.target.width;
  for (size_t c = 0; c < bytes_.size(); ++c)
    append_bytes(bytes_[c], fields + static_cast<int64_t>(c) * points, points);
  ++samples_;
}

void ForecastArrays::append_classes(const float* probabilities, int64_t rows) {
  append_bytes(bytes_[0], most_probable(probabilities, rows, shape_.classes).data(), rows);
  append_bytes(bytes_[1], probabilities, rows * shape_.classes);
  samples_ += rows;
}

void ForecastArrays::finish() {
  if (shape_.classes > 0) {
    out_.add(names_.at(0), npy_bytes("<i4", {samples_}, bytes_[0]));
    out_.add(names_.at(0) + "_probability", npy_bytes("<f4", {samples_, shape_.classes}, bytes_[1]));
  } else {
    std::vector<int64_t> shape{samples_};
    if (!shape_.of_table) shape.insert(shape.end(), {shape_.target.height, shape_.target.width});
    for (size_t c = 0; c < names_.size(); ++c) out_.add(names_[c], npy_bytes("<f4", shape, bytes_[c]));
  }
  out_.finish();
}

}  // namespace isobar::data
