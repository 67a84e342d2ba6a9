#include "model/engine/validation/field_picture.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "model/base/dtype.h"
#include "model/plan/layout.h"
#include "model/plan/ops/operands.h"

namespace isobar::engine {
namespace {

using Colour = std::array<double, 3>;
// matplotlib's viridis, and a diverging map from blue over white to red, at equal distances
constexpr std::array<Colour, 9> kViridis = {{{68, 1, 84},
                                             {71, 44, 122},
                                             {59, 81, 139},
                                             {44, 113, 142},
                                             {33, 144, 141},
                                             {39, 173, 129},
                                             {92, 200, 99},
                                             {170, 220, 50},
                                             {253, 231, 37}}};
constexpr std::array<Colour, 5> kDifference = {
    {{33, 60, 150}, {125, 165, 215}, {247, 247, 247}, {225, 140, 110}, {160, 20, 40}}};
constexpr Colour kMissing = {128, 128, 128}, kBetween = {255, 255, 255};
constexpr int64_t kLeastWidth = 256, kGap = 4;  // pixels

template <size_t N>
Colour colour_of(const std::array<Colour, N>& map, double share) {
  if (std::isnan(share)) return kMissing;
  const double at = std::clamp(share, 0.0, 1.0) * static_cast<double>(N - 1);
  const size_t i = std::min(static_cast<size_t>(at), N - 2);
  Colour c;
  for (size_t k = 0; k < 3; ++k) c[k] = std::lerp(map[i][k], map[i + 1][k], at - static_cast<double>(i));
  return c;
}

std::string encoded(const std::vector<unsigned char>& rgb, int64_t width, int64_t height) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width), image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  std::string out(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = out.size();
  if (png_image_write_to_memory(&image, out.data(), &size, 0, rgb.data(), 0, nullptr) == 0)
    throw std::runtime_error(std::string("libpng: ") + image.message);
  out.resize(size);
  return out;
}

double number_at(const std::byte* p, DType t, int64_t i) {
  if (t == DType::bf16) return to_float(reinterpret_cast<const bf16*>(p)[i]);
  if (t == DType::f16) return to_float(reinterpret_cast<const f16*>(p)[i]);
  return reinterpret_cast<const float*>(p)[i];
}

}  // namespace

FieldPicture::FieldPicture(const RunSpec& spec, const plan::Plan& plan, size_t channel)
    : plan_(plan),
      height_(spec.net.images()->img_height),
      width_(spec.net.images()->img_width),
      channel_(static_cast<int64_t>(channel)),
      first_(plan::coords_of(spec.layout, plan.rank).dp == 0) {
  const auto at = std::find_if(plan.ops.begin(), plan.ops.end(),
                               [](const plan::Op& op) { return op.kind == plan::OpKind::loss_sums; });
  if (at != plan.ops.end()) loss_ = &*at;
  planes_.resize(static_cast<size_t>(3 * height_ * width_));
}

void FieldPicture::take_truth(const float* target) {
  if (first_)
    std::copy_n(target + channel_ * height_ * width_, height_ * width_,
                planes_.begin() + 2 * height_ * width_);
}

// A row is a patch: for each point its channels.
void FieldPicture::take_prediction(Backend& backend) {
  if (!first_ || loss_ == nullptr) return;
  const plan::View& predicted = plan::in<plan::OpKind::loss_sums>(*loss_, "pred");
  backend.download({predicted});
  const std::byte* from = backend.host(predicted);
  const DType type = plan_.buffers[predicted.buffer].dtype;
  const plan::ImageAttrs& a = loss_->as<plan::LossAttrs>().image;
  const int64_t p = a.patch, across = width_ / p;
  for (int64_t row = 0; row < a.rows && a.row0 + row < a.tokens; ++row)
    for (int64_t i = 0; i < p * p; ++i) {
      const int64_t token = a.token0 + a.row0 + row;
      const int64_t point = (token / across * p + i / p) * width_ + token % across * p + i % p;
      planes_[static_cast<size_t>(point)] += number_at(from, type, (row * p * p + i) * a.channels + channel_);
      planes_[static_cast<size_t>(height_ * width_ + point)] += 1;
    }
}

std::string FieldPicture::png(const comm::Mpi& mpi) {
  const std::vector<double> all = mpi.sum_of(planes_);
  std::fill(planes_.begin(), planes_.end(), 0.0);
  const int64_t points = height_ * width_;
  const double *predicted = all.data(), *held = predicted + points, *truth = held + points;
  const auto [low, high] = std::minmax_element(truth, truth + points);
  const double span = *high > *low ? *high - *low : 1;
  double most = 0;
  const auto difference = [&](int64_t i) { return predicted[i] / held[i] - truth[i]; };
  for (int64_t i = 0; i < points; ++i) most = std::max(most, std::abs(difference(i)));
  if (most == 0) most = 1;
  const int64_t scale = std::max<int64_t>(1, kLeastWidth / width_);
  const int64_t width = width_ * scale, panel = height_ * scale, height = 3 * panel + 2 * kGap;
  std::vector<unsigned char> rgb;
  rgb.reserve(static_cast<size_t>(3 * width * height));
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const int64_t which = y / (panel + kGap), line = y % (panel + kGap);
      const int64_t i = line / scale * width_ + x / scale;
      const Colour c = line >= panel ? kBetween
                       : which == 0  ? colour_of(kViridis, (predicted[i] / held[i] - *low) / span)
                       : which == 1  ? colour_of(kViridis, (truth[i] - *low) / span)
                                     : colour_of(kDifference, 0.5 + 0.5 * difference(i) / most);
      for (const double v : c) rgb.push_back(static_cast<unsigned char>(std::lround(v)));
    }
  return encoded(rgb, width, height);
}

}  // namespace isobar::engine
