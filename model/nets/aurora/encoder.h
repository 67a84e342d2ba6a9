// Aurora's encoder (Bodnar 2024, supplement B.1): fields to a grid of a few latent levels of patches, and the
// lead time's code that conditions the backbone.
//
//   surface   patches of all surface and static fields -> linear, + level code, + LayerNorm(MLP)
//   upper air patches of each level -> one linear for all of them, + linear of the level's code; a Perceiver
//             takes the levels of a patch to the latent ones
//   x         both, level by level [B, latent levels, H/p, W/p, D], + linears of the codes of position, area,
//             lead time and time
//
// Channels of a sample: history steps, oldest first, each with its surface fields and its upper-air fields
// (by variable, then level); then the static fields.
#pragma once
#include <array>

#include "model/base/spec/net_spec.h"
#include "model/nets/aurora/perceiver.h"
#include "model/nets/net.h"
#include "model/nets/windows/rows.h"

namespace isobar::nets::aurora {

class Encoder : public NetPart {
 public:
  /// `at`: of the patches, in whole rows.
  Encoder(Emission& e, const Sharding& at, const AuroraSpec& n);
  void set_input(const plan::View& v) { input_ = v; }
  void set_time(const plan::View& v) { time_ = v; }
  /// Roll-out: the previous step's prediction, [patches, p p, fields] (absent in the first step), and the
  /// buffer of its gradient.
  void set_before(const plan::View& v) { before_ = v; }
  void set_before_gradient(const plan::View& v) { before_gradient_ = v; }

  void declare(Declare& d) override;
  bool in_f32() const override { return n_.fp32_ends; }
  std::vector<Flow> forward(const std::vector<Flow>&, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  plan::View last_gradient(bool weight) const override {
    return weight || !e_.split ? surface_.weight : surface_.bias;
  }

 private:
  struct Codes {  // a constant and the linear that reads it
    const char* name;
    plan::View code;
    Linear linear;
  };
  void declare_codes();
  void read_surface();
  void read_upper();
  void surface_forward(const plan::View& y);
  void surface_backward(const plan::View& dy);
  void levels_forward(const plan::View& y);
  void levels_backward(const plan::View& dy);
  plan::View positions_forward();
  void positions_backward(const plan::View& dx);
  void condition_forward(const plan::View& s);
  void condition_backward(const plan::View& ds);
  void patches(const std::string& path, int64_t images, int64_t channels, const plan::View& fields,
               const plan::View& out);
  void code_backward(Codes& c, const plan::View& dy, int64_t rows);

  // Roll-outs (encoder_roll.cpp)
  struct Rows {  // patches as a product reads them: variable by variable, each with its history
    int64_t count, variables, width;
  };
  Rows surface_rows() const;
  Rows upper_rows() const;
  void strided(const std::string& path, const std::array<int64_t, 3>& extent, int64_t run,
               const plan::View& from, int64_t first, const std::array<int64_t, 3>& by, const plan::View& to,
               int64_t to_first, const std::array<int64_t, 3>& to_by);
  void shift(const std::string& path, const Rows& r, const plan::View& from, const plan::View& to, bool back);
  void roll_surface();
  void roll_upper();
  plan::View patches_gradient(const std::string& path, const Rows& r, const Linear& l, const plan::View& dy);
  plan::View as_predicted(const std::string& path, const plan::View& dpatches);
  void surface_back(const plan::View& dy);
  void upper_back(const plan::View& dy);
  plan::View as_f32(const std::string& name, const plan::View& x);
  plan::SumAttrs rows_of(int64_t rows, int64_t cols) const;

  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  const AuroraSpec n_;
  const int64_t B_, L_, points_, first_, D_, levels_;  // samples; this rank's patches, their points and the
                                                       // first one's index in the grid; width, pressure
                                                       // levels
  Linear surface_, upper_, fc1_, fc2_, time1_, time2_;
  ResultNorm norm_;
  plan::View level_code_, latents_;  // parameters
  Perceiver perceiver_;
  Codes position_{"pos", {}, {}}, area_{"scale", {}, {}}, lead_{"lead_time", {}, {}},
      time_code_{"absolute_time", {}, {}}, level_{"atmos_levels", {}, {}};
  RowOrder by_patch_, by_level_;  // upper air: levels of a patch adjacent; x: patches of a level adjacent
  plan::View lead_code_, input_, time_, before_, before_gradient_;
  plan::View surface_patches_, upper_patches_, x_, u_, g_, lead_act_, c1_, c1_act_, c2_;
};

}  // namespace isobar::nets::aurora
