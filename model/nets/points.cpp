#include "model/nets/points.h"

#include <algorithm>

#include "model/base/latitude.h"
#include "model/nets/graph/globe_graph.h"
#include "model/nets/graph/region_graph.h"
#include "model/nets/graph/regional_gnn.h"

namespace isobar::nets {
namespace {

plan::View indices(plan::Builder& b, const std::string& name, std::vector<int32_t> rows) {
  const auto n = static_cast<int64_t>(rows.size());
  return b.constant(name, DType::i32, n, [rows = std::move(rows)](void* to) {
    std::copy(rows.begin(), rows.end(), static_cast<int32_t*>(to));
  });
}

std::vector<int32_t> order_of(const RegionalGnnSpec& n, int64_t ranks) {
  return region_cut(n, ranks)->down.order;
}

std::vector<int32_t> order_of(const GraphcastSpec& n, int64_t ranks) {
  return globe_cut(n, ranks)->grid.order;
}

// For each place of this layout's prediction, its point of the predicted fields or region; {}: identity.
std::vector<int32_t> predicted_order(const RunSpec& spec) {
  return spec.net.visit([&](const auto& n) -> std::vector<int32_t> {
    if constexpr (requires { order_of(n, spec.layout.cp); })
      return spec.layout.cp > 1 ? order_of(n, spec.layout.cp) : std::vector<int32_t>{};
    else
      return {};
  });
}

}  // namespace

std::vector<double> loss_latitudes(const RunSpec& spec, std::vector<double> of_rows) {
  const std::vector<int32_t> order = predicted_order(spec);
  const std::optional<GridBox> region = predicted_region(spec.net);
  if (!region && order.empty()) return of_rows;
  const int64_t points = region ? region->points() : static_cast<int64_t>(order.size());
  std::vector<double> out;
  for (int64_t i = 0; i < points; ++i) {
    const int64_t point = order.empty() ? i : order[static_cast<size_t>(i)];
    if (region) {
      const RegionalGnnSpec& n = spec.net.regional_gnn();
      out.push_back(n.north - n.spacing * static_cast<double>(region->row + point / region->columns));
    } else {
      const int64_t rows = spec.net.images()->img_height, row = point / spec.net.images()->img_width;
      const bool known = static_cast<int64_t>(of_rows.size()) >= rows;  // as row_weights() takes them
      out.push_back(known ? of_rows[static_cast<size_t>(row)] : pole_to_pole(rows, row));
    }
  }
  return out;
}

void OwnPoints::read(const ImageShape& image, const plan::View& fields, DType act, const plan::View& x) {
  plan::ImageAttrs points = image_attrs(image, at_);
  if (!apart()) {
    b_.emit<plan::OpKind::patch_gather>(path_ + "/points", points, {fields}, {x});
    return;
  }
  // All of the image, of which this rank takes its points
  const int64_t count = image.height * image.width;
  points.rows = at_.batch * count, points.token0 = 0, points.tokens = count;
  const plan::View all = b_.scratch(path_ + ".points", act, points.rows * image.channels);
  b_.emit<plan::OpKind::patch_gather>(path_ + "/points", points, {fields}, {all});
  if (!own_)
    own_ =
        indices(b_, path_ + ".own", {order_.begin() + at_.token0, order_.begin() + at_.token0 + at_.tokens});
  b_.emit<plan::OpKind::gather>(path_ + "/own",
                                {.rows = at_.rows, .cols = image.channels, .batch = at_.batch},
                                {plan::View{}, all, own_, plan::View{}, plan::View{}}, {x});
}

plan::View OwnPoints::in_order(const std::string& what, const std::string& name, int64_t images,
                               const plan::View& of) {
  const auto points = static_cast<int64_t>(order_.size());
  const plan::View lies = b_.saved(name, DType::f32, images * points);
  if (!all_) all_ = indices(b_, path_ + ".points", order_);
  b_.emit<plan::OpKind::gather>(what + "/points", {.rows = images * points, .cols = 1, .batch = images},
                                {plan::View{}, of, all_, plan::View{}, plan::View{}}, {lies});
  return lies;
}

}  // namespace isobar::nets
