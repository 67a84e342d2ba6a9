// The first sample of a validation as a picture, as the NERSC example logs it: what the net predicted of its
// first variable, what came, and their difference, from top to bottom.
//
//   FieldPicture picture(spec, plan);
//   picture.take_truth(batch.at("target"));  picture.take_prediction(backend);   // of the validation's first
//   batch const std::string png = picture.png(mpi);                                    // on all ranks at
//   once
#pragma once
#include <string>
#include <vector>

#include "model/backend/backend.h"
#include "model/base/spec.h"
#include "model/comm/comm.h"

namespace isobar {

class FieldPicture {
 public:
  /// Nets whose fields lie in patches have one: vit, unet, aurora.
  static bool exists(const RunSpec& spec) { return spec.net.rolls_out(); }
  FieldPicture(const RunSpec& spec, const Plan& plan);
  /// target [batch, C', H, W]: on one rank.
  void take_truth(const float* target);
  /// Of the rows that this rank predicts, if it does.
  void take_prediction(Backend& backend);
  /// Collective. The colours of both fields span what came, those of the difference its largest.
  std::string png(const Mpi& mpi);

 private:
  const Plan& plan_;
  const Op* loss_ = nullptr;  // which reads the prediction
  const int64_t height_, width_;
  const bool first_;            // of the replicas
  std::vector<double> planes_;  // sums of predictions, how many of them, what came: [H, W] each
};

}  // namespace isobar
