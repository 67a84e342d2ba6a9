// Aurora's decoder (Bodnar 2024, supplement B.3): the backbone's last stream beside its first skip
// connection, twice the width, to fields: surface variables from the surface's latent level; upper-air ones
// from a Perceiver whose queries are the codes of the pressure levels; one linear a variable to each patch's
// points.
#pragma once
#include "model/base/net_spec.h"
#include "model/nets/aurora/perceiver.h"
#include "model/nets/aurora/rows.h"
#include "model/nets/net.h"
#include "model/nets/pixels.h"

namespace isobar::aurora {

class Decoder : public NetPart {
 public:
  /// `at`: of the patches, whole rows of them.
  Decoder(int index, Emission& e, const Sharding& at, const AuroraSpec& n);
  void set_target(const View& v) { target_ = v; }
  void set_mask(const View& v) { mask_ = v; }
  View predicted() const { return pred_; }  // [patches, p p, fields]
  /// Of a roll-out: the gradient of what it predicted by the next step.
  void set_next_gradient(const View& v) { next_gradient_ = v; }

  void declare(Declare& d) override;
  bool in_f32() const override { return n_.fp32_ends; }
  View door(size_t in) override;
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  View last_gradient(bool weight) const override {
    return weight || !e_.split ? surface_.weight : surface_.bias;
  }

  static constexpr size_t kX = 0, kSkip = 1;

 private:
  void emit_head(Linear& l, const std::string& path, const View& x, const View& pred, int64_t rows);
  void place(const std::string& path, bool back, const View& part, const View& pred, bool surface);
  Attrs rows_of(int64_t rows, int64_t cols) const;

  Emission& e_;
  Builder& b_;
  const Sharding patches_;
  const Layers layers_;
  const AuroraSpec n_;
  const int64_t B_, L_, D_, levels_;  // D: of the head, twice the backbone's
  PixelLoss loss_;
  Perceiver perceiver_;
  Linear level_, surface_, upper_;
  RowOrder surface_rows_, upper_rows_;  // x's rows of the surface's level; of the others, patch by patch
  View code_, target_, mask_, level_rows_, x_surface_, x_upper_, y_, pred_, next_gradient_;
};

}  // namespace isobar::aurora
