// Points of fields in the order of a graph's partition (partition.h): METIS scatters a rank's points over the
// fields that it reads.
//
//   OwnPoints points(b, at, "embed/down", cut->down.order);     // at: cut like the partition
//   points.read(region, fields, act, x);                        // [B, C, H, W] -> this rank's [rows, C]
//   View wanted = points.in_order("head/target", images, of);   // of all ranks, in the prediction's order
#pragma once
#include <string>
#include <vector>

#include "model/nets/images/pixels.h"
#include "model/nets/net.h"

namespace isobar::nets {

class OwnPoints {
 public:
  /// `order`: the point of each place, of all ranks; {}: identity, a rank's points are a run. `at` must
  /// outlive this.
  OwnPoints(plan::Builder& b, const Sharding& at, std::string path, std::vector<int32_t> order)
      : b_(b), at_(at), path_(std::move(path)), order_(std::move(order)) {}
  bool apart() const { return !order_.empty(); }

  /// fields [B, C, H, W] f32 -> x [rows, C] of type `act`
  void read(const ImageShape& image, const plan::View& fields, DType act, const plan::View& x);
  /// [images, points] f32 -> the same in all ranks' order, saved as `name`. Only if apart().
  plan::View in_order(const std::string& what, const std::string& name, int64_t images, const plan::View& of);

 private:
  plan::Builder& b_;
  const Sharding& at_;
  const std::string path_;
  const std::vector<int32_t> order_;
  plan::View own_, all_;
};

/// Latitudes for the loss' weights: of the fields' rows (`of_rows`) or, if points form a line, of the points
/// in this layout's order: by the net's own grid for a region, by `of_rows` for a globe that METIS cut.
std::vector<double> loss_latitudes(const RunSpec& spec, std::vector<double> of_rows);

}  // namespace isobar::nets
