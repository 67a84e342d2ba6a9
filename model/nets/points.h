// Points of fields where a graph's cut deals them out in an order of its own (partition.h): by METIS, a
// rank's points lie apart in the fields that it reads.
//
//   OwnPoints points(b, at, "embed/down", cut->down.order);     // at: cut as the partition says
//   points.read(region, fields, act, x);                        // [B, C, H, W] -> this rank's [rows, C]
//   View wanted = points.in_order("head/target", images, of);   // of all ranks, as they are predicted
#pragma once
#include <string>
#include <vector>

#include "model/nets/net.h"
#include "model/nets/pixels.h"

namespace isobar {

class OwnPoints {
 public:
  /// `order`: which point each place has, of all ranks; {}: points are in their own order, a rank's are a
  /// run. `at` must stay.
  OwnPoints(Builder& b, const Sharding& at, std::string path, std::vector<int32_t> order)
      : b_(b), at_(at), path_(std::move(path)), order_(std::move(order)) {}
  bool apart() const { return !order_.empty(); }

  /// fields [B, C, H, W] f32 -> x [rows, C] of type `act`
  void read(const ImageShape& image, const View& fields, DType act, const View& x);
  /// [images, points] f32 -> the same in the order of all ranks' points, saved as `name`. Call it when
  /// apart().
  View in_order(const std::string& what, const std::string& name, int64_t images, const View& of);

 private:
  Builder& b_;
  const Sharding& at_;
  const std::string path_;
  const std::vector<int32_t> order_;
  View own_, all_;
};

/// Latitudes of the rows that the net's loss counts by: those of its fields, `of_rows`. Where points lie in a
/// line those of the points, in the order in which this layout predicts them: of a region by the net's own
/// grid, of a globe that METIS cut by `of_rows`.
std::vector<double> loss_latitudes(const RunSpec& spec, std::vector<double> of_rows);

}  // namespace isobar
