// The parts of a graphcast net between its ends (graphcast.h): messages from grid to mesh, on the mesh, and
// back.
#pragma once
#include <string>
#include <vector>

#include "model/nets/feature_embed.h"
#include "model/nets/graph/message_passing.h"
#include "model/nets/net.h"

namespace isobar::nets {

/// Constructor arguments shared by all of them.
struct GlobeNet {
  Emission& e;
  const Sharding& at;
  int64_t latent;
  MlpShape shape;
  int64_t grid, mesh;                // nodes of one sample
  EdgeConstants &up, &level, &down;  // from grid to mesh, on the mesh, from mesh to grid
};

/// A part with streams in f32 and, for its products, in the type of activations.
class GlobePart : public NetPart {
 public:
  GlobePart(int index, std::string path, const GlobeNet& net, std::vector<std::string> streams,
            std::vector<int64_t> rows);
  plan::View receive_buffer(size_t in) override;
  std::vector<Flow> kept_inputs() const override { return in_; }

 protected:
  /// The streams as products read them
  std::vector<plan::View> act(const std::vector<Flow>& in, const Forward& how);
  /// Buffer of its i-th result; absent if unused
  plan::View goes_on(size_t i, const std::string& name, int64_t rows, const Forward& how) const;
  /// The gradient of its i-th result as products read it
  plan::View of_result(size_t i, const plan::View& dx) const;

  Emission& e_;
  plan::Builder& b_;
  const int64_t batch_, D_;
  std::vector<plan::View> act_;

 private:
  const std::vector<std::string> streams_;
  const std::vector<int64_t> rows_;
  std::vector<Flow> in_;
};

/// grid, mesh -> grid, mesh, edges
class GlobeEncode : public GlobePart {
 public:
  GlobeEncode(int index, const GlobeNet& net);
  void declare(Declare& d) override;
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  int shares_gradient_with(size_t in) const override { return static_cast<int>(in); }
  plan::View last_gradient(bool weight) const override {
    return weight || !e_.split ? level_.last_weight() : level_.first_bias();
  }

 private:
  const GlobeNet net_;
  FeatureEmbed up_, level_;  // embed the features of both types of edges
  EdgeUpdate edge_;
  GraphMlp mesh_, grid_;
  plan::View sums_;
};

/// mesh, edges -> mesh, edges; the last step: mesh only
class GlobeStep : public GlobePart {
 public:
  GlobeStep(int index, const std::string& path, const std::string& name, const GlobeNet& net, bool last);
  void declare(Declare& d) override;
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  int shares_gradient_with(size_t in) const override { return in == 0 || !last_ ? static_cast<int>(in) : -1; }
  plan::View last_gradient(bool weight) const override {
    return weight || !e_.split ? edge_.last_weight() : edge_.first_bias();
  }

 private:
  const GlobeNet net_;
  const bool last_;
  EdgeUpdate edge_;
  GraphMlp node_;
  plan::View sums_;
};

/// grid, mesh -> grid
class GlobeDecode : public GlobePart {
 public:
  GlobeDecode(int index, const GlobeNet& net);
  void declare(Declare& d) override;
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  int shares_gradient_with(size_t in) const override { return in == 0 ? 0 : -1; }
  plan::View last_gradient(bool weight) const override {
    return weight || !e_.split ? down_.last_weight() : down_.first_bias();
  }

 private:
  const GlobeNet net_;
  FeatureEmbed down_;
  EdgeUpdate edge_;
  GraphMlp grid_, mesh_;
  plan::View sums_;
};

}  // namespace isobar::nets
