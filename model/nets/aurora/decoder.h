// Aurora's decoder (Bodnar 2024, supplement B.3): the backbone's last stream concatenated with its first skip
// connection, to fields. Surface variables come from the surface's latent level, upper-air ones from a
// Perceiver whose queries are the pressure levels' codes; one linear a variable gives a patch's points.
#pragma once
#include "model/base/spec/net_spec.h"
#include "model/nets/aurora/perceiver.h"
#include "model/nets/images/pixels.h"
#include "model/nets/net.h"
#include "model/nets/windows/rows.h"

namespace isobar::nets::aurora {

class Decoder : public NetPart {
 public:
  /// `at`: of the patches, in whole rows.
  Decoder(int index, Emission& e, const Sharding& at, const AuroraSpec& n);
  void set_target(const plan::View& v) { target_ = v; }
  void set_mask(const plan::View& v) { mask_ = v; }
  plan::View predicted() const { return pred_; }  // [patches, p p, fields]
  /// Roll-out: the gradient of its prediction from the next step.
  void set_next_gradient(const plan::View& v) { next_gradient_ = v; }

  void declare(Declare& d) override;
  bool in_f32() const override { return n_.fp32_ends; }
  plan::View receive_buffer(size_t in) override;
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  plan::View last_gradient(bool weight) const override {
    return weight || !e_.split ? surface_.weight : surface_.bias;
  }

  static constexpr size_t kX = 0, kSkip = 1;

 private:
  void place(const std::string& path, bool back, const plan::View& part, const plan::View& pred,
             bool surface);
  plan::SumAttrs rows_of(int64_t rows, int64_t cols) const;

  Emission& e_;
  plan::Builder& b_;
  const Sharding patches_;
  const Layers layers_;
  const AuroraSpec n_;
  const int64_t B_, L_, D_, levels_;  // D: the head's width, twice the backbone's
  PixelLoss loss_;
  Perceiver perceiver_;
  Linear level_, surface_, upper_;
  RowOrder surface_rows_, upper_rows_;  // x's rows of the surface level; of the other levels, patch by patch
  plan::View code_, target_, mask_, level_rows_, x_surface_, x_upper_, y_, pred_, next_gradient_;
};

}  // namespace isobar::nets::aurora
