// Constant features of nodes or edges -> MLP -> latent rows. They are equal for every sample, so they are
// computed once for a micro-batch and copied to each sample.
//
//   FeatureEmbed edges(e, at, "embed/intra", "embed.intra", rows, width, shape);
//   edges.to_stream("/forward", features, stream, true);   edges.backward(dstream);
//   x = edges.to_act("/forward", features, true);          edges.backward(dx);   // read once
#pragma once
#include <string>

#include "model/nets/graph/graph_mlp.h"

namespace isobar::nets {

class FeatureEmbed {
 public:
  FeatureEmbed(Emission& e, const Sharding& at, const std::string& path, const std::string& name,
               int64_t rows, int64_t width, const MlpShape& shape);
  void declare(Declare& d) { mlp_.declare(d); }

  /// features [rows, width] act -> y [B rows, D] f32 (absent: unused)
  void to_stream(const std::string& pass, const plan::View& features, const plan::View& y, bool keep);

  /// -> [B rows, D] act
  plan::View to_act(const std::string& pass, const plan::View& features, bool keep);
  /// The f32 buffer for its gradient
  plan::View act_gradient() const;

  /// dy: gradient of the stream, or in act_gradient()
  void backward(const plan::View& dy);

  plan::View last_gradient(bool weight) const { return mlp_.last_gradient(weight); }

 private:
  plan::View copied(const std::string& pass, const plan::View& one, const plan::View& all) const;
  plan::View summed(const plan::View& dy) const;

  Emission& e_;
  plan::Builder& b_;
  const std::string path_;
  const int64_t batch_, rows_, D_;
  GraphMlp mlp_;
  plan::View features_;
};

}  // namespace isobar::nets
