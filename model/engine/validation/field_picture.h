// Image of the first validation sample, as the NERSC example logs it: prediction of one channel,
// truth, and difference, from top to bottom.
//
//   FieldPicture picture(spec, plan, channel);
//   picture.take_truth(batch.at("target"));  picture.take_prediction(backend);   // of the validation's first
//   batch const std::string png = picture.png(mpi);                                    // on all ranks at
//   once
#pragma once
#include <string>
#include <vector>

#include "model/backend/backend.h"
#include "model/base/spec/spec.h"
#include "model/comm/comm.h"

namespace isobar::engine {

class FieldPicture {
 public:
  /// Only nets whose fields are divided into patches (vit, unet, aurora) have one.
  static bool exists(const RunSpec& spec) { return spec.net.rolls_out(); }
  FieldPicture(const RunSpec& spec, const plan::Plan& plan, size_t channel);
  /// target [batch, C', H, W]: on one rank.
  void take_truth(const float* target);
  /// Copies the rows that this rank predicts, if any.
  void take_prediction(Backend& backend);
  /// Collective. Both fields share the colour range of the truth; the difference is scaled to its maximum.
  std::string png(const comm::Mpi& mpi);

 private:
  const plan::Plan& plan_;
  const plan::Op* loss_ = nullptr;  // the op that reads the prediction
  const int64_t height_, width_, channel_;
  const bool first_;            // first data-parallel replica
  std::vector<double> planes_;  // sum of predictions, their count, truth: [H, W] each
};

}  // namespace isobar::engine
